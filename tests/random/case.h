#pragma once
// A random problem: what is drawn from a seed, and what a line of cases.txt holds.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "templates/op.h"

namespace tunesmith::test {

/// What the inputs hold.
enum class Values : std::uint8_t {
  edge_cases,  ///< the operation's own rows of edge cases
  random,
  zeros,
  ties,       ///< few different values
  subnormal,  ///< of the element type
  offset,     ///< large and nearly equal
  huge,       ///< near the largest number of the element type
  infinite,   ///< some infinities
  nan,        ///< some NaN
};
inline constexpr std::string_view values_names[] = {"edge_cases", "random", "zeros",    "ties", "subnormal",
                                                    "offset",     "huge",   "infinite", "nan"};

struct RandomCase {
  Problem problem;
  Config config{};  ///< partial; empty: the default
  Values values = Values::edge_cases;
  std::uint64_t seed = 1;  ///< of the inputs
  /// The problem is invalid because of this field, which the error must name; empty: the problem may be valid.
  std::string broken{};

  /// Prints "softmax rows=4,cols=7 | variant=block | ties 12" or "softmax rows=-1,cols=7 | rejects rows".
  std::string text() const;
  /// Parses it. Throws Error(invalid_argument).
  static RandomCase parse(std::string_view line);
};

/// Limits of problems that run.
struct Sizes {
  std::int64_t longest;  ///< of an extent
  double max_bytes, max_flops;
};
/// For the host executor: a few hundred thread blocks of work at most.
inline constexpr Sizes small_sizes{300, 200e3, 1e6};
/// For a GPU: several blocks in every dimension.
inline constexpr Sizes large_sizes{5000, 64e6, 4e9};

/// Returns the operation that a seed draws.
const Op& op_of(std::uint64_t seed);
/// Draws a case from a seed alone: a problem, which may be invalid, a configuration and values.
RandomCase draw(std::uint64_t seed, const Sizes& sizes, const DeviceInfo& device);

/// Draws the fields that `fixed` leaves open and, if `layout`, strides and alignments. Returns nothing if the result is
/// invalid.
ParsedProblemPtr draw_rest(const Op& op, const Fields& fixed, bool layout, std::uint64_t seed, const Sizes& sizes,
                           const DeviceInfo& device);

/// Draws some fields of a valid problem again. Returns nothing if the result is invalid.
ParsedProblemPtr draw_change(const ParsedProblem& problem, std::uint64_t seed, const Sizes& sizes, const DeviceInfo& device);
/// Does the same, but keeps fields that are compiled in: the source is the same.
ParsedProblemPtr draw_runtime_change(const ParsedProblem& problem, std::uint64_t seed, const DeviceInfo& device);

/// Returns what the inputs hold if these values are asked for: random ones, if the problem has no array for others.
Values values_in(Values values, const ParsedProblem& problem);
/// Changes the inputs of a case that runs to what its values are. `arrays` hold edge cases.
void fill_values(const RandomCase& random_case, const ParsedProblem& problem, std::span<const HostArray> arrays);

/// Returns whether a message contains a word.
bool names(std::string_view message, std::string_view word);

/// Returns whether the problem is small enough to run.
bool fits(const ParsedProblem& problem, const Sizes& sizes);

}  // namespace tunesmith::test
