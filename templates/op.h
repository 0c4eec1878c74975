#pragma once
// The interface of an operation. One implementation per folder of templates/, listed in registry.cpp.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "core/launch.h"
#include "templates/kernel_config.h"
#include "tunesmith/description.h"
#include "tunesmith/device_info.h"
#include "tunesmith/problem.h"

namespace tunesmith {

/// An array on the host with the strides of the device array; data spans info.extent_bytes().
struct HostArray {
  ArrayInfo info;
  std::byte* data = nullptr;
  /// Contents before the run, for check() of an array that is an input and an output.
  const std::byte* before = nullptr;
};

/// The properties of a problem that determine the fastest configuration; part of the cache key.
struct KeyParts {
  std::string problem_class;       ///< dtypes, options, alignment and stride classes, as canonical text
  std::int64_t n_cols = 0;         ///< the size that tuning is keyed on
  std::int64_t rows_bucket = 0;    ///< rows rounded up to a bucket, capped where the GPU is full
  bool n_cols_in_buckets = false;  ///< n_cols is not compiled in: tuning results are kept for buckets of it
  /// Problem class that other problems share whose kernels cost alike. Results are kept for it, too, and problems without
  /// results of their own start from them. Empty: none.
  std::string related_class{};
};

/// Minimum work of any implementation, for copy baselines and percentages.
struct Cost {
  double bytes_read = 0, bytes_written = 0, flops = 0;
  /// Work that is counted although it may be skipped, such as "pairs that mask_mod hides", because it is unknown before the
  /// launch. The numbers are then upper bounds, from which no rate follows. Empty: none.
  std::string overcounted{};
  double bytes() const noexcept { return bytes_read + bytes_written; }
};

/// An operation's input to render(): the templates to include, and the generated code after them.
struct SourceParts {
  /// {"device/group_of_cluster.cuh", "softmax/resident.cuh"}, in the order in which they are included. The last one defines
  /// `kernel`; functions of those before it are overloads that it finds.
  std::vector<std::string> includes;
  std::string kernel;                                                ///< the main kernel's template: "softmax_resident"
  std::vector<std::pair<std::string, std::string>> specialized_for;  ///< provenance lines, e.g. {"cols", "32000"}
  std::string algorithm, threads;  ///< the algorithm of this configuration, and the mapping of threads to data
  std::string min_arch = "sm_75";  ///< minimum architecture
  /// Constexpr objects with designated initializers. User source may follow a #line directive of its own; a line "#line
  /// here" after it becomes a directive that returns to the generated file.
  std::string constants;
  std::string kernels;  ///< the extern "C" entry points that instantiate the template
};

enum class InputKind : std::uint8_t {
  random,      ///< seeded random numbers
  edge_cases,  ///< the first rows contain ties, -inf, +inf, NaN, large offsets, denormals; the rest is random
};

/// Result of comparing outputs with the float64 reference.
struct CheckResult {
  bool passed = true;
  double max_error = 0;    ///< maximum error in the unit of error_unit
  std::string error_unit;  ///< "ULP" or "relative"
  double allowed_error = 0;
  std::int64_t checked_rows = 0, total_rows = 0;  ///< checked < total: evenly spread rows were sampled
  std::string first_failure;                      ///< "y[3,17] is 0.25, reference 0.5 (...)"; empty if passed
  std::string note;                               ///< parts of the reference that were not computed in float64; may be empty
};

/// Launches a plan of kernels from a problem's generated source on host arrays in the order of its pointers: copies inputs
/// to the device and outputs back. Throws the errors of a launch.
using Evaluate = std::function<void(const LaunchPlan& plan, std::span<const HostArray> arrays)>;

class Op;
class ParsedProblem;
/// Immutable, with shared ownership.
using ParsedProblemPtr = std::shared_ptr<const ParsedProblem>;

/// A parsed and checked problem of one operation; answers all questions about the problem. Immutable and thread-safe.
class ParsedProblem {
 public:
  virtual ~ParsedProblem() = default;
  ParsedProblem(const ParsedProblem&) = delete;
  ParsedProblem& operator=(const ParsedProblem&) = delete;

  const Op& op() const noexcept { return op_; }
  /// Returns the normal form: all fields in canonical order, and the options that differ from their defaults.
  const Problem& problem() const noexcept { return problem_; }
  /// Returns the arrays in launch order.
  std::vector<ArrayInfo> arrays() const;
  /// Returns the same without a copy, valid as long as this object; the first call makes them. Thread-safe.
  std::span<const ArrayInfo> described_arrays() const;
  /// Returns the arrays in launch order without their texts (Description::array_layouts()), valid as long as this object.
  std::span<const ArrayInfo> array_view() const noexcept { return layouts_; }
  /// Returns the same problem with other values of some fields. Throws Error(invalid_argument).
  ParsedProblemPtr with(const Fields& changes) const;

  virtual KeyParts key() const = 0;
  virtual Cost cost() const = 0;

  /// Reads a configuration. Throws Error(invalid_argument) for fields that are missing or unknown, and for values out of
  /// their ranges.
  virtual KernelConfig configure(const Config& config) const = 0;
  /// Returns the configuration used without tuning: valid for the device, and good without measurements.
  virtual KernelConfig default_kernel_config(const DeviceInfo& device) const = 0;
  /// Returns its named values.
  Config default_config(const DeviceInfo& device) const { return default_kernel_config(device).config(); }
  /// Completes a partial configuration ("variant=two_pass" or "threads=512") with defaults. Throws
  /// Error(invalid_argument) for an unknown field or value, and for a result that why_invalid() rejects.
  virtual Config complete_config(const DeviceInfo& device, const Config& partial) const = 0;
  /// Returns valid candidates in the order in which to try them, default_config() first.
  virtual std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const = 0;
  /// Returns an empty string if the configuration can run this problem on this device, otherwise one line with the reason.
  virtual std::string why_invalid(const DeviceInfo& device, const KernelConfig& config) const = 0;
  /// Does the same for named values, which may come from a cache that another version wrote. Never throws.
  std::string why_invalid(const DeviceInfo& device, const Config& config) const;

  /// Returns the maximum spilled bytes per thread, as reported by compilation, at which the tuner still measures a
  /// candidate. Default: no limit, because the measurement decides. A limit skips kernels whose spills are known to be slow.
  virtual int max_spill_bytes(const KernelConfig& config) const {
    static_cast<void>(config);
    return std::numeric_limits<int>::max();
  }

  /// Returns the configuration of a kernel that runs every n_cols of a bucket; n_cols is a parameter of the
  /// kernel then. Nothing if the operation compiles n_cols in. It is the same for all problems with equal capacity() and
  /// capacity_class().
  virtual std::optional<Config> capacity_config(const DeviceInfo& device) const {
    static_cast<void>(device);
    return std::nullopt;
  }
  /// Returns the most n_cols of the problem's bucket; 0 if the operation compiles n_cols in.
  virtual std::int64_t capacity() const noexcept { return 0; }
  /// Returns what decides, with capacity(), the capacity_config() and its source: made in microseconds.
  virtual std::string capacity_class() const { return {}; }
  /// Returns problems with this capacity_class(), one for each bucket of n_cols that ends from `least` to `most`. Buckets
  /// without such a problem are left out.
  virtual std::vector<ParsedProblemPtr> in_buckets(std::int64_t least, std::int64_t most) const {
    static_cast<void>(least), static_cast<void>(most);
    return {};
  }

  virtual SourceParts source_parts(const KernelConfig& config) const = 0;
  virtual LaunchPlan launch_plan(const KernelConfig& config, const DeviceInfo& device) const = 0;
  /// Do the same for a configuration that is not used again. Throw as configure() does.
  SourceParts source_parts(const Config& config) const { return source_parts(configure(config)); }
  LaunchPlan launch_plan(const Config& config, const DeviceInfo& device) const {
    return launch_plan(configure(config), device);
  }

  /// Returns the problem to tune in place of this one if its inputs cannot be generated; it has the same key() and source.
  /// Default: this problem.
  virtual Problem tuned_as() const { return problem(); }
  /// Returns a problem with the same generated source but few rows, ragged if the grid allows it.
  virtual Problem verification_problem() const = 0;
  /// Fills all input arrays; deterministic in (problem, seed, kind).
  virtual void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const = 0;
  /// Computes inputs that depend on user CUDA functions, such as the outputs of a forward pass, with these functions.
  /// Default: there are none.
  virtual void complete_inputs(std::span<const HostArray> arrays, const Evaluate& evaluate) const {
    static_cast<void>(arrays), static_cast<void>(evaluate);
  }
  /// Compares the outputs with a float64 reference computed from the inputs, on at most max_rows evenly spread rows.
  /// `arrays` in the order of arrays(): inputs as before the run (the caller keeps a copy if the problem is in place),
  /// outputs as after it. An array that is both has its earlier contents in HostArray::before.
  virtual CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const = 0;
  /// Does the same for problems with user CUDA functions, which the host cannot evaluate and for which check() throws
  /// Error(unsupported): evaluates the functions alone on the device, on inputs that the reference computes. Other
  /// operations do not use `evaluate`.
  virtual CheckResult check_outputs(std::span<const HostArray> arrays, std::int64_t max_rows,
                                    const Evaluate& evaluate) const {
    (void)evaluate;
    return check(arrays, max_rows);
  }

 protected:
  ParsedProblem(const Op& op, Problem problem, std::vector<ArrayInfo> arrays)
      : op_(op), problem_(std::move(problem)), layouts_(std::move(arrays)), describe_([this] { return layouts_; }) {}
  /// From a self-describing problem, as returned by read_problem().
  template <typename Typed>
  ParsedProblem(const Op& op, const Typed& typed) : ParsedProblem(op, typed, Description(typed)) {}

 private:
  template <typename Typed>
  ParsedProblem(const Op& op, const Typed& typed, const Description& description)
      : op_(op),
        problem_{std::string(typed.op()), description.normal_form(description_of_defaults<Typed>())},
        layouts_(description.array_layouts()),
        describe_([typed] { return Description(typed).array_infos(); }) {}

  const Op& op_;
  const Problem problem_;
  const std::vector<ArrayInfo> layouts_;
  /// Makes the arrays with their texts, which most problems are never asked for.
  const std::function<std::vector<ArrayInfo>()> describe_;
  mutable std::once_flag described_once_;
  mutable std::vector<ArrayInfo> described_;
};

/// An operation: properties that all its problems share.
class Op {
 public:
  virtual ~Op() = default;

  virtual std::string_view name() const noexcept = 0;
  virtual std::string_view summary() const noexcept = 0;
  /// Returns whether it is part of another operation and not listed by help.
  virtual bool is_internal() const noexcept { return false; }
  virtual std::vector<FieldInfo> problem_fields() const = 0;
  virtual std::vector<FieldInfo> config_fields() const = 0;
  /// Returns what its kernels are made of: the folder of its templates, and the files of other folders that
  /// SourceParts::includes names. Tuning keys have the digest of all of them, so a record is found from a neighbouring
  /// n_cols for which other files are candidates.
  virtual std::vector<std::string> templates() const = 0;
  /// Returns problem_fields(), made on the first call. Thread-safe.
  std::span<const FieldInfo> cached_fields() const;

  /// Parses a problem. Throws Error(invalid_argument) with the field, its value and the allowed values, also for unknown
  /// fields and overflowing shapes.
  virtual ParsedProblemPtr parse(const Problem& problem) const = 0;
  /// Reads a problem's struct, whose type is `type`, without its generic form. Returns nullptr if another struct describes
  /// this operation. Throws as parse() does.
  virtual ParsedProblemPtr parse_typed(const std::type_info& type, const void* problem) const {
    static_cast<void>(type), static_cast<void>(problem);
    return nullptr;
  }
  /// The normal form of a problem. Throws as parse() does.
  Problem normalize(const Problem& problem) const;

  /// Returns the fields of a partially known problem with the limits that follow from its other fields. Checks types only.
  virtual std::vector<DescribedField> describe_fields(const Fields& known) const {
    static_cast<void>(known);
    return {};
  }
  /// Returns the arrays of a partially known problem, absent ones included (ArrayInfo::present); extents of unknown fields
  /// have their defaults. Checks types only.
  virtual std::vector<ArrayInfo> describe_arrays(const Fields& known) const {
    static_cast<void>(known);
    return {};
  }
  /// Infers fields from the shape of an array, such as rows and cols; empty if none can be inferred.
  virtual Fields infer_fields(const Fields& known, std::string_view array, std::span<const std::int64_t> shape) const {
    static_cast<void>(known), static_cast<void>(array), static_cast<void>(shape);
    return {};
  }

 private:
  mutable std::once_flag fields_once_;
  mutable std::vector<FieldInfo> fields_;
};

/// Returns all operations in the order of the help text.
std::span<const Op* const> all_ops();
/// Returns the operation of this name. Throws Error(invalid_argument) with the list of names.
const Op& find_op(std::string_view name);

}  // namespace tunesmith
