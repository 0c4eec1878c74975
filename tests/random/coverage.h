#pragma once
// Which pairs of classes of values were drawn, and which of them ran. The counts are shared by processes.

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/random/checks.h"

namespace tunesmith::test {

/// Returns the class of each field's value, such as "cols few", of the variant and of the kind of inputs.
std::vector<std::string> class_names(const RandomCase& random_case, const ParsedProblem& problem, const Config& config);
/// Returns a number for each of them: two problems whose numbers are equal are alike.
std::vector<std::uint64_t> classes_of(const RandomCase& random_case, const ParsedProblem& problem, const Config& config);

/// Sets of pairs, one bit for a hash of each. Lives in memory that processes share; zeros are the empty sets.
class PairSets {
 public:
  enum Which : std::uint8_t {
    possible,  ///< of valid problems that are small enough to run
    taken,     ///< of problems that were chosen to run
    ran,       ///< of verified launches
  };

  void add(Which which, std::size_t op, const std::vector<std::uint64_t>& classes);
  /// Returns how many pairs the set lacks.
  std::size_t lacks(Which which, std::size_t op, const std::vector<std::uint64_t>& classes) const;
  bool contains(Which which, std::size_t op, std::uint64_t a, std::uint64_t b) const;
  std::int64_t count(Which which, std::size_t op) const;

  static constexpr std::size_t max_ops = 32;

 private:
  static constexpr std::size_t words = std::size_t{1} << 16;  // 2^22 bits
  using Set = std::array<std::atomic<std::uint64_t>, words>;

  std::array<std::array<Set, max_ops>, 3> sets_;
};

/// Returns the position of an operation in all_ops(); shipped programs are row programs.
std::size_t op_index(const Op& op);

}  // namespace tunesmith::test
