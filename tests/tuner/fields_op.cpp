#include "tests/tuner/fields_op.h"

namespace tunesmith {
namespace {

class FieldsProblem final : public ParsedProblem {
 public:
  FieldsProblem(const FieldsOp& op, const Problem& normal) : ParsedProblem(op, normal, op.arrays(normal)), fields_op_(op) {}

  KeyParts key() const override { return fields_op_.key(problem()); }
  Cost cost() const override { return fields_op_.cost(problem()); }
  Config default_config(const DeviceInfo& device) const override { return fields_op_.default_config(problem(), device); }
  Config complete_config(const DeviceInfo& device, const Config& partial) const override {
    return fields_op_.complete_config(problem(), device, partial);
  }
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override {
    return fields_op_.search_space(problem(), device, effort);
  }
  std::string why_invalid(const DeviceInfo& device, const Config& config) const override {
    return fields_op_.why_invalid(problem(), device, config);
  }
  int max_spill_bytes(const Config& config) const override { return fields_op_.max_spill_bytes(problem(), config); }
  SourceParts source_parts(const Config& config) const override { return fields_op_.source_parts(problem(), config); }
  LaunchPlan launch_plan(const Config& config, const DeviceInfo& device) const override {
    return fields_op_.launch_plan(problem(), config, device);
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
  const FieldsOp& fields_op_;
};

}  // namespace

ParsedProblemPtr FieldsOp::parse(const Problem& problem) const {
  return std::make_shared<FieldsProblem>(*this, normal(problem));
}

}  // namespace tunesmith
