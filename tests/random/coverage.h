#pragma once
// Which pairs of classes of values were possible, and which of them ran. The counts are shared by processes.

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/random/checks.h"

namespace tunesmith::test {

/// Returns a number for each field's class of values, the variant and the kind of inputs: two problems whose numbers are
/// equal are alike.
std::vector<std::uint64_t> classes_of(const RandomCase& random_case, const ParsedProblem& problem, const Config& config);

/// Sets of pairs, one bit for a hash of each. Lives in memory that processes share; zeros are the empty sets.
class PairSets {
 public:
  /// Adds the pairs of a valid problem, and of one that runs. Return how many are new.
  void add_possible(std::size_t op, const std::vector<std::uint64_t>& classes) { add(possible_[op], classes); }
  void add_run(std::size_t op, const std::vector<std::uint64_t>& classes) { add(run_[op], classes); }
  /// Returns how many pairs did not run yet.
  std::size_t new_pairs(std::size_t op, const std::vector<std::uint64_t>& classes) const;

  std::int64_t possible(std::size_t op) const { return count(possible_[op]); }
  std::int64_t ran(std::size_t op) const { return count(run_[op]); }

  static constexpr std::size_t max_ops = 32;

 private:
  static constexpr std::size_t words = std::size_t{1} << 16;  // 2^22 bits
  using Set = std::array<std::atomic<std::uint64_t>, words>;

  static void add(Set& set, const std::vector<std::uint64_t>& classes);
  static std::int64_t count(const Set& set);

  std::array<Set, max_ops> possible_, run_;
};

/// Returns the position of the problem's operation in all_ops(): shipped programs are row programs.
std::size_t op_index(const ParsedProblem& problem);

}  // namespace tunesmith::test
