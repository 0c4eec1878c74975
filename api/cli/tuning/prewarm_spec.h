#pragma once
// The file that says what to make ready: {"problems": [{"op": "softmax", "rows": 4096, "cols": [1024, 32000]}, ...]}.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tunesmith/problem.h"

namespace tunesmith::cli {

struct SpecProblem {
  Problem problem;    ///< normalized
  std::string texts;  ///< where its texts are from: "problems[0].mask_mod ('documents.cu')"; empty without any
};

/// Problems in the order of the file, each once; the lists of an entry multiply, the last one varying fastest. Texts
/// (score_mod, mask_mod) are in files of their own, whose names are relative to the folder of `file`. Throws
/// Error(invalid_argument) that names `file` and the place, e.g. "problems[2].cols[0] is 0; ...", and Error(not_found | io)
/// for a text's file.
std::vector<SpecProblem> parse_spec(std::string_view text, const std::filesystem::path& file);
/// Throws also Error(not_found | io).
std::vector<SpecProblem> read_spec(const std::filesystem::path& file);

}  // namespace tunesmith::cli
