#include "jit/compiler.h"

#include "core/hash.h"

namespace tunesmith {

std::string binary_fingerprint(const Compiler& compiler, const CompileRequest& request) {
  // Each part is preceded by its length, so that two different requests never concatenate to the same string.
  std::string text = "tunesmith binary 1";
  for (const std::string& part : {name(request.arch), compiler.options(request.arch), compiler.identity(), request.source})
    text += "\n" + std::to_string(part.size()) + ":" + part;
  return hash_hex(text);
}

}  // namespace tunesmith
