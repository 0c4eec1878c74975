#pragma once
// What `tunesmith doctor` finds: facts for --json, lines for the table, and problems with their remedies.

#include <string>
#include <utility>
#include <vector>

#include "api/cli/tuning/tune_child.h"

namespace tunesmith::cli {

/// Something that keeps Tunesmith from using what the machine has.
struct Diagnosis {
  std::string what;  ///< one sentence, with the values found
  std::string fix;   ///< what to type, or to do
};

using Lines = std::vector<std::pair<std::string, std::string>>;

/// The result of one search.
struct Finding {
  Json facts{};
  Lines lines{};
  std::vector<Diagnosis> diagnoses{};
};

}  // namespace tunesmith::cli
