#include "jit/compiler.h"

#include "core/hash.h"

namespace tunesmith {

std::string binary_fingerprint(const Compiler& compiler, const Arch& arch, std::string_view source_key) {
  // Lengths precede the parts: no two different lists concatenate to the same text.
  std::string toolchain = "tunesmith toolchain 1";
  for (const std::string& part : {name(arch), compiler.options(arch), compiler.identity()})
    toolchain += "\n" + std::to_string(part.size()) + ":" + part;
  return std::string(source_key) + "-" + hash_hex(toolchain);
}

}  // namespace tunesmith
