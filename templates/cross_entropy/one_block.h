#pragma once
// Operations of one block that prepare or finish a cross-entropy computed in chunks of rows: their single configuration,
// source, launch plan, inputs and comparison.

#include "templates/row/source.h"
#include "templates/typed_problem.h"
#include "tunesmith/cross_entropy.h"

namespace tunesmith::cross_entropy {

inline constexpr std::int64_t max_rows_of_a_sum = std::int64_t{1} << 50;

/// The single configuration: variant=block.
struct OneBlockConfig {
  static OneBlockConfig parse(const Config& config);
  Config to_config() const { return {{{"variant", std::string("block")}}}; }
  bool operator==(const OneBlockConfig&) const = default;
};

/// Base of operations with one kernel of one block.
class OneBlockProblem : public TypedProblem<OneBlockConfig> {
 public:
  static std::vector<std::string> templates() { return row::templates("cross_entropy"); }
  Cost cost() const override;
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override;
  Problem verification_problem() const override;

 protected:
  OneBlockConfig read(const Config& config) const override { return OneBlockConfig::parse(config); }
  OneBlockConfig default_of(const DeviceInfo&) const override { return {}; }
  std::string why_invalid_of(const DeviceInfo& device, const OneBlockConfig& config) const override;
  template <typename Typed>
  OneBlockProblem(const Op& op, const Typed& typed) : TypedProblem(op, typed), rows_(typed.rows) {}

 private:
  const std::int64_t rows_;
};

namespace one_block {

constexpr int threads = 1024;  // reduction_threads in cross_entropy/reduction.cuh

std::vector<FieldInfo> config_fields();

/// Returns the launch of `entry` with the arrays' addresses at `offsets` of the parameters, in launch order.
LaunchPlan launch_plan(const char* entry, std::span<const std::byte> params, const std::vector<ArrayInfo>& arrays,
                       const std::vector<std::size_t>& offsets);
template <typename Params>
LaunchPlan launch_plan(const char* entry, const Params& params, const std::vector<ArrayInfo>& arrays,
                       const std::vector<std::size_t>& offsets) {
  return launch_plan(entry, std::as_bytes(std::span(&params, 1)), arrays, offsets);
}

/// Returns the source of `entry`, which calls the function of that name in cross_entropy/finalize.cuh with the template
/// `arguments`.
SourceParts source(const std::string& entry, const std::string& params, std::size_t params_bytes,
                   const std::string& arguments);

/// Compares single float32 values with float64 ones; `magnitude` is the sum of the absolute terms.
class Comparison {
 public:
  explicit Comparison(std::int64_t rows) {
    result_.error_unit = "ULP";
    // At most three roundings, of a sum, a quotient and a product: each is up to half an ULP of its own result, which is up
    // to one of what is computed from it.
    result_.allowed_error = 3;
    result_.checked_rows = result_.total_rows = rows;
  }
  void compare(const char* array, const HostArray& found_in, double expected, double magnitude, std::int64_t index = 0);
  CheckResult result() const { return result_; }

 private:
  CheckResult result_;
};

/// Returns a number in [0, 1) for element `i` of an array; arrays of an operation differ by the lengths of their names.
double noise(std::uint64_t seed, const HostArray& array, std::int64_t i);

}  // namespace one_block
}  // namespace tunesmith::cross_entropy
