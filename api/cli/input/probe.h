#pragma once
// What the dimensions of an operation's arrays stand for, found by trying: an operation says nowhere that x is rows x cols,
// but its arrays change with its fields.

#include <map>
#include <string>
#include <vector>

#include "templates/op.h"

namespace tunesmith::cli {

/// An extent of an array: the value of a field, or so much more than it (batch + 1). No field: a number.
struct Extent {
  std::string field{};
  std::int64_t more = 0;
};

/// Whether the operation takes the problem as it is.
bool is_accepted(const Op& op, const Problem& problem);

/// A small problem with the words and options of a given one. Its own lengths say which fields are lengths.
class Probe {
 public:
  /// Throws Error(invalid_argument) for words that the operation refuses. A number that goes with the true lengths only is
  /// left out: the problem itself will be refused with it, if it is wrong there too.
  Probe(const Op& op, const Problem& given);

  /// Without options: it has the arrays that the operation always has.
  const Problem& plain() const noexcept { return plain_; }
  /// With what was given, but for lengths, which are its own.
  const Problem& problem() const noexcept { return problem_; }
  const std::vector<ArrayInfo>& arrays() const noexcept { return arrays_; }
  bool is_always_there(const std::string& array) const;
  /// One for each dimension of one of arrays().
  const std::vector<Extent>& extents(const std::string& array) const { return extents_.at(array); }

 private:
  void choose_lengths(const Problem& given);
  void find_extents();

  const Op& op_;
  Problem plain_, problem_;
  std::vector<ArrayInfo> arrays_;
  std::vector<std::string> lengths_;  ///< fields
  std::map<std::string, std::vector<Extent>> extents_;
};

}  // namespace tunesmith::cli
