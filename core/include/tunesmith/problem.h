#pragma once
// What is asked for (Problem) and how it shall be computed (Config), in the form that every layer passes on.

#include <string>

#include "tunesmith/fields.h"

namespace tunesmith {

/// An operation and its shape, dtypes, strides and options as named values. Which fields an operation has, and their
/// defaults, is its descriptor's business (templates/op.h); the typed structs such as SoftmaxProblem (softmax.h) build one.
struct Problem {
  std::string op;
  Fields fields;

  /// "softmax rows=4096,cols=32000,...".
  std::string text() const { return op + " " + fields.text(); }
  /// For people: see Fields::short_text().
  std::string short_text() const { return op + " " + fields.short_text(); }
  bool operator==(const Problem&) const = default;
};

/// One point of an operation's search space. The field "variant" names the kernel; the rest are its tunables.
struct Config {
  Fields fields;

  std::string variant() const { return fields.word("variant"); }
  /// "variant=block,threads=512,...": canonical, stored in the cache, accepted by --config.
  std::string text() const { return fields.text(); }
  bool operator==(const Config&) const = default;
};

}  // namespace tunesmith
