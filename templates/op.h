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
#include "tunesmith/device_info.h"
#include "tunesmith/problem.h"

namespace tunesmith {

/// Layout of one array of a problem.
struct ArrayInfo {
  std::string name;                    ///< "x"
  bool input = false, output = false;  ///< both: read and written in place
  bool optional = false;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< elements; the last is 1
  std::int64_t alignment = 1;         ///< bytes the base address is promised to be a multiple of
  std::string in_place_of{};          ///< an output that is this input's memory; empty: memory of its own

  std::int64_t elements() const noexcept;      ///< product of shape
  std::int64_t extent_bytes() const noexcept;  ///< from the base to the end of the last element; 0 when empty
};

/// An array on the host, strided like its device twin: data spans info.extent_bytes().
struct HostArray {
  ArrayInfo info;
  std::byte* data = nullptr;
};

/// What of a problem decides which configuration is fast; becomes part of the cache key.
struct KeyParts {
  std::string semantics;         ///< dtypes, options, alignment and stride classes, as canonical text
  std::int64_t n_cols = 0;       ///< the size that tuning is keyed on
  std::int64_t rows_bucket = 0;  ///< rows rounded to a class (powers of two, capped where the GPU is full anyway)
};

/// The least work any implementation must do, for roofs and shares.
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
  random,   ///< seeded, well-behaved
  awkward,  ///< the first rows hold ties, -inf, +inf, NaN, huge offsets, denormals; the rest random
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

class Op {
 public:
  virtual ~Op() = default;

  virtual std::string_view name() const noexcept = 0;
  virtual std::string_view summary() const noexcept = 0;
  virtual std::vector<FieldInfo> problem_fields() const = 0;
  virtual std::vector<FieldInfo> config_fields() const = 0;

  /// Fills in defaults, in canonical field order, and checks every value. Throws Error(invalid_argument) naming the
  /// field, its value and what is allowed (unknown fields, absurd or overflowing shapes included).
  virtual Problem normalize(const Problem& problem) const = 0;

  // Everything below takes a normalized problem.

  virtual std::vector<ArrayInfo> arrays(const Problem& problem) const = 0;
  virtual KeyParts key(const Problem& problem) const = 0;
  virtual Cost cost(const Problem& problem) const = 0;

  /// The configuration used without tuning; valid for the device, good without measuring.
  virtual Config default_config(const Problem& problem, const DeviceInfo& device) const = 0;
  /// Completes a partial configuration ("variant=online" or "threads=512") with defaults. Throws
  /// Error(invalid_argument) for an unknown field or value, and for a result that why_invalid() rejects.
  virtual Config complete_config(const Problem& problem, const DeviceInfo& device, const Config& partial) const = 0;
  /// Candidates in the order they should be tried; every one valid; default_config() is among them and first.
  virtual std::vector<Config> search_space(const Problem& problem, const DeviceInfo& device, Effort effort) const = 0;
  /// Empty when the configuration can run this problem on this device, else one line that says why not. Never throws,
  /// whatever the text of the configuration (it may come from a cache written by another version).
  virtual std::string why_invalid(const Problem& problem, const DeviceInfo& device, const Config& config) const = 0;

  /// Bytes per thread that a kernel of this configuration may spill, as its compilation reports them, and still be tried by
  /// the tuner. Default: any number, and the clock decides; for kernels whose spills are known to lose, compiling is enough.
  virtual int max_spill_bytes(const Problem& problem, const Config& config) const {
    static_cast<void>(problem), static_cast<void>(config);
    return std::numeric_limits<int>::max();
  }

  virtual SourceParts source_parts(const Problem& problem, const Config& config) const = 0;
  virtual LaunchPlan launch_plan(const Problem& problem, const Config& config, const DeviceInfo& device) const = 0;

  /// The problem that is tuned in place of this one, where its inputs could not be made up; of the same key() and the same
  /// text. Default: itself.
  virtual Problem tuned_as(const Problem& problem) const { return problem; }
  /// A problem that runs the same binary (render() gives the same text) on few rows, ragged where the grid allows it.
  virtual Problem verification_problem(const Problem& problem) const = 0;
  /// Writes every input array of the problem; deterministic in (problem, seed, kind).
  virtual void fill_inputs(const Problem& problem, std::uint64_t seed, InputKind kind,
                           std::span<const HostArray> arrays) const = 0;
  /// Compares the outputs with a float64 reference computed from the inputs. `arrays` in the order of arrays(): inputs as
  /// they were before the run (for an in-place problem the caller keeps a copy), outputs as they are after it. At most
  /// max_rows rows are looked at, evenly spread.
  virtual CheckResult check(const Problem& problem, std::span<const HostArray> arrays, std::int64_t max_rows) const = 0;
  /// The same where the problem holds CUDA text of the user's, which no host can compute: check() throws
  /// Error(unsupported) then, and this asks the device for what the text alone makes of numbers that the reference has
  /// computed. Other operations do not use `evaluate`.
  virtual CheckResult judge(const Problem& problem, std::span<const HostArray> arrays, std::int64_t max_rows,
                            const Evaluate& evaluate) const {
    (void)evaluate;
    return check(problem, arrays, max_rows);
  }
};

/// Every operation, in the order of the help text.
std::span<const Op* const> all_ops();
/// Throws Error(invalid_argument) that lists what exists.
const Op& find_op(std::string_view name);

}  // namespace tunesmith
