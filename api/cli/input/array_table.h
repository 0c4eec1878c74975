#pragma once
// The arrays of a problem with some known fields, and the field behind each of their dimensions.

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "templates/op.h"

namespace tunesmith::cli {

/// A dimension: the value of a field plus a constant (batch + 1), or times a known field (shards * rows). Without a field it
/// is a number or another quantity.
struct Dimension {
  std::string field{};
  std::int64_t plus = 0, times = 1;
};

class ArrayTable {
 public:
  /// Throws Error(invalid_argument) for a field with a value of another type.
  ArrayTable(const Op& op, const Fields& known);

  /// The arrays that the known fields enable; lengths that are not known have their defaults.
  const std::vector<ArrayInfo>& arrays() const noexcept { return arrays_; }
  std::vector<Dimension> dimensions(const ArrayInfo& array) const;
  /// Whether the operation has the array without any option.
  bool is_always_there(const std::string& array) const { return always_.contains(array); }
  /// The input as another value of a field makes it; nullopt if it is absent then.
  std::optional<ArrayInfo> input_with(std::string_view field, const Value& value, std::string_view array) const;

 private:
  const Op& op_;
  const Fields known_;
  const std::vector<FieldInfo> fields_;
  std::vector<ArrayInfo> arrays_;
  std::set<std::string> always_;
};

}  // namespace tunesmith::cli
