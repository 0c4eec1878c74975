#pragma once
// An operation of tests whose functions read a generic problem each time.

#include "templates/op.h"

namespace tunesmith {

class FieldsOp : public Op {
 public:
  ParsedProblemPtr parse(const Problem& problem) const final;

  virtual Problem normal(const Problem& problem) const = 0;
  virtual std::vector<ArrayInfo> arrays(const Problem& problem) const = 0;
  virtual KeyParts key(const Problem& problem) const = 0;
  virtual Cost cost(const Problem& problem) const = 0;
  virtual Config default_config(const Problem& problem, const DeviceInfo& device) const = 0;
  virtual Config complete_config(const Problem& problem, const DeviceInfo& device, const Config& partial) const = 0;
  virtual std::vector<Config> search_space(const Problem& problem, const DeviceInfo& device, Effort effort) const = 0;
  virtual std::string why_invalid(const Problem& problem, const DeviceInfo& device, const Config& config) const = 0;
  virtual int max_spill_bytes(const Problem&, const Config&) const { return std::numeric_limits<int>::max(); }
  /// Throws Error(invalid_argument) for a configuration that is not complete.
  virtual Config read(const Config& config) const { return config; }
  virtual SourceParts source_parts(const Problem& problem, const Config& config) const = 0;
  virtual LaunchPlan launch_plan(const Problem& problem, const Config& config, const DeviceInfo& device) const = 0;
  virtual Problem tuned_as(const Problem& problem) const { return problem; }
  virtual Problem verification_problem(const Problem& problem) const = 0;
  virtual void fill_inputs(const Problem& problem, std::uint64_t seed, InputKind kind,
                           std::span<const HostArray> arrays) const = 0;
  virtual CheckResult check(const Problem& problem, std::span<const HostArray> arrays, std::int64_t max_rows) const = 0;
  virtual CheckResult check_outputs(const Problem& problem, std::span<const HostArray> arrays, std::int64_t max_rows,
                                    const Evaluate&) const {
    return check(problem, arrays, max_rows);
  }
};

}  // namespace tunesmith
