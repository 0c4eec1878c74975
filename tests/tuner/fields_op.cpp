#include "tests/tuner/fields_op.h"

#include "templates/typed_problem.h"

namespace tunesmith {
namespace {

struct FieldsConfig {
  Config config;
  Config to_config() const { return config; }
  bool operator==(const FieldsConfig&) const = default;
};

class FieldsProblem final : public TypedProblem<FieldsConfig> {
 public:
  FieldsProblem(const FieldsOp& op, const Problem& normal) : TypedProblem(op, normal, op.arrays(normal)), fields_op_(op) {}

  KeyParts key() const override { return fields_op_.key(problem()); }
  Cost cost() const override { return fields_op_.cost(problem()); }
  Config complete_config(const DeviceInfo& device, const Config& partial) const override {
    return fields_op_.complete_config(problem(), device, partial);
  }
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override {
    return fields_op_.search_space(problem(), device, effort);
  }
  int max_spill_bytes(const KernelConfig& config) const override {
    return fields_op_.max_spill_bytes(problem(), config.config());
  }
  Problem tuned_as() const override { return fields_op_.tuned_as(problem()); }
  Problem verification_problem() const override { return fields_op_.verification_problem(problem()); }
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override {
    return fields_op_.fill_inputs(problem(), seed, kind, arrays);
  }
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override {
    return fields_op_.check(problem(), arrays, max_rows);
  }
  CheckResult check_outputs(std::span<const HostArray> arrays, std::int64_t max_rows,
                            const Evaluate& evaluate) const override {
    return fields_op_.check_outputs(problem(), arrays, max_rows, evaluate);
  }

 private:
  FieldsConfig read(const Config& config) const override { return {fields_op_.read(config)}; }
  FieldsConfig default_of(const DeviceInfo& device) const override { return {fields_op_.default_config(problem(), device)}; }
  std::string why_invalid_of(const DeviceInfo& device, const FieldsConfig& config) const override {
    return fields_op_.why_invalid(problem(), device, config.config);
  }
  SourceParts parts_of(const FieldsConfig& config) const override {
    return fields_op_.source_parts(problem(), config.config);
  }
  LaunchPlan plan_of(const FieldsConfig& config, const DeviceInfo& device) const override {
    return fields_op_.launch_plan(problem(), config.config, device);
  }

  const FieldsOp& fields_op_;
};

}  // namespace

ParsedProblemPtr FieldsOp::parse(const Problem& problem) const {
  return std::make_shared<FieldsProblem>(*this, normal(problem));
}

}  // namespace tunesmith
