#pragma once
// The list of problems to prewarm: {"problems": [{"op": "softmax", "rows": 4096, "cols": [1024, 32000]}, ...]}.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tunesmith/problem.h"

namespace tunesmith::cli {

struct SpecProblem {
  Problem problem;      ///< normalized
  std::string sources;  ///< places of its user sources: "problems[0].mask_mod ('documents.cu')"; empty without any
};

/// Also reads a problem log (EngineOptions::problem_log): a problem and its "count" on each line, with user sources in
/// place. Counts of equal problems are added up, and the problems asked for most come first. A last line that is incomplete,
/// because the program was killed, is ignored.
///
/// Reads the problems of a spec in the order of the file, each once. The lists of an entry multiply, and the last one varies
/// fastest. User sources (score_mod, mask_mod) are in their own files, whose names are relative to the folder of `file`.
/// Throws Error(invalid_argument) that names `file` and the place, e.g. "problems[2].cols[0] is 0; ...", and Error(not_found
/// | io) for the file of a user source.
std::vector<SpecProblem> parse_spec(std::string_view text, const std::filesystem::path& file);
/// Also throws Error(not_found | io).
std::vector<SpecProblem> read_spec(const std::filesystem::path& file);

}  // namespace tunesmith::cli
