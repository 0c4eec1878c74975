#pragma once
// The operations of the C API: all of the registry, and linear cross-entropy, which consists of several. Internal.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tunesmith/engine.h"
#include "tunesmith/linear_cross_entropy.h"

namespace tunesmith {

/// Returns the names of all operations that users may call.
const std::vector<std::string>& operation_names();
/// Throws Error(invalid_argument) with all names if there is no such operation.
void require_operation(const std::string& name);

/// Returns the fields of an operation's problems.
std::vector<FieldInfo> operation_fields(const std::string& name);
/// Returns what an operation computes, in one line.
std::string operation_summary(const std::string& name);
/// Returns the arrays of a partially known problem; see Op::describe_arrays().
std::vector<ArrayInfo> operation_arrays(const std::string& name, const Fields& known);
/// Infers fields from the shape of an array; see Op::infer_fields().
Fields infer_operation_fields(const std::string& name, const Fields& known, const std::string& array,
                              std::span<const std::int64_t> shape);

/// The normal form of a problem and its arrays.
struct CheckedProblem {
  std::string text;
  std::vector<ArrayInfo> arrays;
};
/// Checks a problem. Throws Error(invalid_argument) with the field, its value and the allowed values.
CheckedProblem check_problem(const Problem& problem);

/// A prepared problem of any operation. Cheap to copy; immutable and thread-safe.
class Prepared {
 public:
  /// Prepares a problem. Throws the errors of Engine::prepare and of LinearCrossEntropy.
  static Prepared make(Engine& engine, const Problem& problem, const PrepareOptions& options, Stream stream = nullptr);

  void launch(std::span<void* const> addresses, Stream stream) const;
  void launch(std::span<const NamedArray> arrays, Stream stream) const;

  const Plan& kernels() const noexcept { return plan_; }  ///< linear cross-entropy: the kernels of one chunk's cross-entropy
  std::string text() const;                               ///< the problem's normal form
  std::vector<ArrayInfo> arrays() const;
  std::size_t workspace_bytes() const noexcept;

 private:
  explicit Prepared(Plan plan) : plan_(std::move(plan)) {}
  explicit Prepared(LinearCrossEntropy linear) : plan_(linear.cross_entropy()), linear_(std::move(linear)) {}

  Plan plan_;
  std::optional<LinearCrossEntropy> linear_;
};

}  // namespace tunesmith
