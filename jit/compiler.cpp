#include "jit/compiler.h"

#include "core/hash.h"

namespace tunesmith {

std::string binary_fingerprint(const Compiler& compiler, const Arch& arch, std::string_view source_key) {
  // Each part is preceded by its length, so that two different lists never concatenate to the same string.
  std::string toolchain = "tunesmith toolchain 1";
  for (const std::string& part : {name(arch), compiler.options(arch), compiler.identity()})
    toolchain += "\n" + std::to_string(part.size()) + ":" + part;
  return std::string(source_key) + "-" + hash_hex(toolchain);
}

}  // namespace tunesmith
