#pragma once
// What the generated constants say about the conditions in templates. Internal to templates/.

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "templates/scan.h"

namespace tunesmith {

/// A number, or the name of an enumerator.
struct Constant {
  long long number = 0;
  std::string enumerator{};
  bool operator==(const Constant&) const = default;
  bool truth() const { return number != 0; }
};
using MaybeConstant = std::optional<Constant>;

/// The generated objects by type, and the constexpr variables of templates. Keeps references to both texts; the templates
/// may change between calls.
class KnownValues {
 public:
  KnownValues(const std::string& templates, std::string_view constants);

  /// Evaluates a condition at a position of the templates; nothing if a part that matters is unknown.
  std::optional<bool> condition(std::string_view expression, scan::Position at) const;

  /// Returns the member of the object that the template parameter `name` stands for at a position of the templates.
  MaybeConstant member(std::string_view name, std::string_view member, scan::Position from) const;
  /// Returns the value of a qualified name: of an enumerator, of a constant of a generated struct (Program::stages), or of a
  /// type that the generated features choose (Features::Mask::present).
  MaybeConstant qualified(std::span<const std::string_view> path) const;

  struct Initializer {
    std::string_view text;
    scan::Position at;
  };
  /// Returns the initializer of a constexpr variable and its position: of this declaration, or of a variable template.
  std::optional<Initializer> initializer(std::string_view name, scan::Position from, bool is_template) const;

 private:
  struct Object {
    int count = 0;  ///< objects of the type
    std::map<std::string, Constant, std::less<>> members;
  };

  /// Reads the default member values of a struct, then the generated ones.
  void read_object(const std::string& type, std::string_view initializers);
  /// Returns whether a variable template has other initializers for some arguments.
  bool is_specialized(std::string_view name) const;

  const std::string& templates_;
  const std::string_view constants_;
  std::map<std::string, Object, std::less<>> objects_;
};

}  // namespace tunesmith
