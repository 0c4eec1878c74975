#pragma once
// Configurations described by quantities that transfer from one n_cols to another.

#include <cstdint>
#include <map>
#include <string>

#include "tunesmith/problem.h"

namespace tunesmith {

/// A configuration without what merely follows from n_cols. A kernel that holds a row in registers needs four times the
/// threads for four times the columns: such configurations are alike if each thread holds as much of the row.
struct Traits {
  std::map<std::string, std::string> words;  ///< variant, cache hints, register format, ...
  /// Binary logarithms: the row values in the registers of a thread, the resident elements per multiprocessor (instead of
  /// threads or lanes, and of min_blocks), and all other numbers as they are.
  std::map<std::string, double> octaves;
};

Traits traits_of(const Config& config, std::int64_t n_cols);

/// Returns in how many steps two configurations differ. One step is a factor of two of a number, another word, or a field
/// that only one of them has; another variant is two steps.
double steps_between(const Traits& a, const Traits& b);

}  // namespace tunesmith
