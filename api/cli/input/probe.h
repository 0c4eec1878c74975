#pragma once
// Which field each dimension of an array is: read from the operation's description, or, for an operation that has none yet,
// found by trying values.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "templates/op.h"

namespace tunesmith::cli {

/// An extent of an array: the value of a field, or more than it (batch + 1). Without a field: a number.
struct Extent {
  std::string field{};
  std::int64_t more = 0;
};

/// A small problem with the choices and options of a given one, and its arrays.
class Probe {
 public:
  /// Throws Error(invalid_argument) for choices that the operation rejects. A number that is valid only with the true
  /// lengths is omitted: parsing the problem itself will reject it if it is wrong there, too.
  Probe(const Op& op, const Problem& given);

  /// The given fields; without a description, lengths have values of their own.
  const Problem& problem() const noexcept { return problem_; }
  const std::vector<ArrayInfo>& arrays() const noexcept { return arrays_; }
  /// Whether the operation has the array without any option.
  bool is_always_there(const std::string& array) const { return always_.contains(array); }
  /// The input that the problem would have with another value of a field; nullopt if it has none or is rejected.
  std::optional<ArrayInfo> input_with(std::string_view field, const Value& value, const std::string& array) const;
  /// One for each dimension of one of arrays().
  const std::vector<Extent>& extents(const std::string& array) const { return extents_.at(array); }

 private:
  bool read_description(const Problem& given);
  void choose_lengths(const Problem& given);
  void find_extents();

  const Op& op_;
  Problem plain_, problem_;
  std::vector<ArrayInfo> arrays_;
  std::set<std::string> always_;      ///< arrays
  std::vector<std::string> lengths_;  ///< fields
  std::map<std::string, std::vector<Extent>> extents_;
};

}  // namespace tunesmith::cli
