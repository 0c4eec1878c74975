#pragma once
// The generic form of a problem and of a configuration, which all layers share.

#include <string>

#include "tunesmith/fields.h"

namespace tunesmith {

/// An operation with its shape, dtypes, strides and options as named values. The operation's descriptor (templates/op.h)
/// defines its fields and their defaults. Typed structs such as SoftmaxProblem (softmax.h) convert to a Problem.
struct Problem {
  std::string op;
  Fields fields;

  /// Prints "softmax rows=4096,cols=32000,...".
  std::string text() const { return op + " " + fields.text(); }
  /// Prints the problem for display; see Fields::short_text().
  std::string short_text() const { return op + " " + fields.short_text(); }
  bool operator==(const Problem&) const = default;
};

/// One point of an operation's search space. The field "variant" names the kernel; the others are its tuning parameters.
struct Config {
  Fields fields;

  std::string variant() const { return fields.string("variant"); }
  /// Prints "variant=block,threads=512,...", the form that the cache stores and --config accepts.
  std::string text() const { return fields.text(); }
  bool operator==(const Config&) const = default;
};

}  // namespace tunesmith
