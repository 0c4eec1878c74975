#pragma once
// The user arrays of score_mod that get gradients.

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tunesmith/description.h"

namespace tunesmith {

/// A list of names of AttentionProblem::aux, such as {"bias"}. The gradient of bias is the array daux_bias.
class AttentionAuxGradients {
 public:
  constexpr AttentionAuxGradients() = default;
  AttentionAuxGradients(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) add(name);
  }

  void add(std::string_view name) { arrays_.push_back(std::string(prefix) + std::string(name)); }
  constexpr bool empty() const noexcept { return arrays_.empty(); }
  /// Returns the names of the gradients: "daux_bias".
  const std::vector<std::string>& arrays() const noexcept { return arrays_; }
  /// Returns the name of the gradient of `name`, which lives as long as this object; nullptr if it has none.
  const std::string* array_of(std::string_view name) const noexcept {
    for (const std::string& array : arrays_)
      if (name_in(array) == name) return &array;
    return nullptr;
  }
  /// Returns "bias" of "daux_bias".
  static std::string_view name_in(std::string_view array) noexcept { return array.substr(prefix.size()); }
  bool operator==(const AttentionAuxGradients&) const = default;

  static constexpr std::string_view prefix = "daux_";

 private:
  std::vector<std::string> arrays_;
};

/// Returns the generic form: "bias;gain".
template <>
struct FieldType<AttentionAuxGradients> {
  static constexpr FieldKind kind = FieldKind::text;
  static Value get(const AttentionAuxGradients& member);
  static void set(AttentionAuxGradients& member, const Value& value);
};

}  // namespace tunesmith
