#pragma once
// What the machine asks of an operation. One implementation per folder of templates/, listed in registry.cpp.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/launch.h"
#include "tunesmith/description.h"
#include "tunesmith/device_info.h"
#include "tunesmith/problem.h"

namespace tunesmith {

/// An array on the host, strided like its device twin: data spans info.extent_bytes().
struct HostArray {
  ArrayInfo info;
  std::byte* data = nullptr;
};

/// What of a problem decides which configuration is fast; becomes part of the cache key.
struct KeyParts {
  std::string problem_class;     ///< dtypes, options, alignment and stride classes, as canonical text
  std::int64_t n_cols = 0;       ///< the size that tuning is keyed on
  std::int64_t rows_bucket = 0;  ///< rows rounded to a class (powers of two, capped where the GPU is full anyway)
};

/// The least work any implementation must do, for copy baselines and shares.
struct Cost {
  double bytes_read = 0, bytes_written = 0, flops = 0;
  /// What these numbers count though there may be less of it, such as "pairs that mask_mod hides": what a text of the user's
  /// leaves is not known before it runs. They are upper bounds then, and no rate follows from a time. Empty: nothing.
  std::string overcounted{};
  double bytes() const noexcept { return bytes_read + bytes_written; }
};

/// What render() needs from an operation: which template to include and the text below it.
struct SourceParts {
  std::string main_template;                                         ///< "softmax/softmax_block.cuh"
  std::vector<std::pair<std::string, std::string>> specialized_for;  ///< provenance lines, e.g. {"cols", "32000"}
  std::string algorithm, threads;    ///< what the kernel does in this configuration, and how threads map to the data
  std::string least_arch = "sm_75";  ///< that compiles it
  /// Constexpr objects with designated initializers. Text that is not of the generated file may stand below a #line of its
  /// own; a line "#line here" after it becomes one of the generated file again.
  std::string constants;
  std::string kernels;  ///< the extern "C" entry points that instantiate the template
};

enum class InputKind : std::uint8_t {
  random,      ///< seeded, well-behaved
  edge_cases,  ///< the first rows hold ties, -inf, +inf, NaN, huge offsets, denormals; the rest random
};

/// Outcome of comparing outputs with the float64 reference.
struct CheckResult {
  bool passed = true;
  double max_error = 0;    ///< largest error over its allowance's unit; see error_unit
  std::string error_unit;  ///< "ULP" or "relative"
  double allowed_error = 0;
  std::int64_t checked_rows = 0, total_rows = 0;  ///< checked < total: evenly spread rows were sampled
  std::string first_failure;                      ///< "y[3,17] is 0.25, reference 0.5 (...)": empty when passed
  std::string note;                               ///< what of the reference was not computed in float64; may be empty
};

/// Launches a plan of kernels that a problem's generated source holds, on arrays of the host in the order of its pointers:
/// inputs are copied to the device, outputs back. Throws what launches throw.
using Evaluate = std::function<void(const LaunchPlan& plan, std::span<const HostArray> arrays)>;

class Op;
class ParsedProblem;
/// Immutable, and shared with everything that is made of it.
using ParsedProblemPtr = std::shared_ptr<const ParsedProblem>;

/// A problem of one operation, read and checked once. Everything that an operation is asked about a problem is asked here.
/// Immutable and thread-safe.
class ParsedProblem {
 public:
  virtual ~ParsedProblem() = default;
  ParsedProblem(const ParsedProblem&) = delete;
  ParsedProblem& operator=(const ParsedProblem&) = delete;

  const Op& op() const noexcept { return op_; }
  /// The normal form: every field filled in, in canonical order, options where they differ from their defaults.
  const Problem& problem() const noexcept { return problem_; }
  /// In launch order.
  std::vector<ArrayInfo> arrays() const { return arrays_; }
  /// The same problem with other values of some fields. Throws Error(invalid_argument).
  ParsedProblemPtr with(const Fields& changes) const;

  virtual KeyParts key() const = 0;
  virtual Cost cost() const = 0;

  /// The configuration used without tuning; valid for the device, good without measuring.
  virtual Config default_config(const DeviceInfo& device) const = 0;
  /// Completes a partial configuration ("variant=two_pass" or "threads=512") with defaults. Throws
  /// Error(invalid_argument) for an unknown field or value, and for a result that why_invalid() rejects.
  virtual Config complete_config(const DeviceInfo& device, const Config& partial) const = 0;
  /// Candidates in the order they should be tried; every one valid; default_config() is among them and first.
  virtual std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const = 0;
  /// Empty when the configuration can run this problem on this device, else one line that says why not. Never throws,
  /// whatever the configuration holds (it may come from a cache written by another version).
  virtual std::string why_invalid(const DeviceInfo& device, const Config& config) const = 0;

  /// Bytes per thread that a kernel of this configuration may spill, as its compilation reports them, and still be tried by
  /// the tuner. Default: any number, and the clock decides; for kernels whose spills are known to lose, compiling is enough.
  virtual int max_spill_bytes(const Config& config) const {
    static_cast<void>(config);
    return std::numeric_limits<int>::max();
  }

  virtual SourceParts source_parts(const Config& config) const = 0;
  virtual LaunchPlan launch_plan(const Config& config, const DeviceInfo& device) const = 0;

  /// The problem that is tuned in place of this one, where its inputs could not be made up; it has the same key() and the
  /// same source. Default: this one.
  virtual Problem tuned_as() const { return problem(); }
  /// A problem that runs the same binary (render() gives the same source) on few rows, ragged where the grid allows it.
  virtual Problem verification_problem() const = 0;
  /// Writes every input array; deterministic in (problem, seed, kind).
  virtual void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const = 0;
  /// Compares the outputs with a float64 reference computed from the inputs. `arrays` in the order of arrays(): inputs as
  /// they were before the run (for an in-place problem the caller keeps a copy), outputs as they are after it. At most
  /// max_rows rows are looked at, evenly spread.
  virtual CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const = 0;
  /// The same where the problem holds user CUDA functions, which the host cannot evaluate: check() throws
  /// Error(unsupported) then, and this asks the device for what the code alone makes of numbers that the reference has
  /// computed. Other operations do not use `evaluate`.
  virtual CheckResult check_outputs(std::span<const HostArray> arrays, std::int64_t max_rows,
                                    const Evaluate& evaluate) const {
    (void)evaluate;
    return check(arrays, max_rows);
  }

 protected:
  ParsedProblem(const Op& op, Problem problem, std::vector<ArrayInfo> arrays)
      : op_(op), problem_(std::move(problem)), arrays_(std::move(arrays)) {}
  /// Of a problem that describes itself, as read_problem() returned it.
  template <typename Typed>
  ParsedProblem(const Op& op, const Typed& typed)
      : ParsedProblem(op, normal_problem(typed), Description(typed).array_infos()) {}

 private:
  const Op& op_;
  const Problem problem_;
  const std::vector<ArrayInfo> arrays_;
};

/// An operation: what is the same for all its problems.
class Op {
 public:
  virtual ~Op() = default;

  virtual std::string_view name() const noexcept = 0;
  virtual std::string_view summary() const noexcept = 0;
  /// Part of another operation: not listed by help.
  virtual bool is_internal() const noexcept { return false; }
  virtual std::vector<FieldInfo> problem_fields() const = 0;
  virtual std::vector<FieldInfo> config_fields() const = 0;

  /// Reads a problem. Throws Error(invalid_argument) naming the field, its value and what is allowed (unknown fields,
  /// absurd or overflowing shapes included).
  virtual ParsedProblemPtr parse(const Problem& problem) const = 0;
  /// The normal form of a problem. Throws as parse() does.
  Problem normalize(const Problem& problem) const;

  /// The arrays of a problem of which only some fields are known, absent ones included (ArrayInfo::present); extents of
  /// fields that are not known have their defaults. Checks nothing but types.
  virtual std::vector<ArrayInfo> describe_arrays(const Fields& known) const {
    static_cast<void>(known);
    return {};
  }
  /// The fields that the shape of an array tells, such as rows and cols; empty when none can be told.
  virtual Fields infer_fields(const Fields& known, std::string_view array, std::span<const std::int64_t> shape) const {
    static_cast<void>(known), static_cast<void>(array), static_cast<void>(shape);
    return {};
  }
};

/// Every operation, in the order of the help text.
std::span<const Op* const> all_ops();
/// Throws Error(invalid_argument) that lists what exists.
const Op& find_op(std::string_view name);

}  // namespace tunesmith
