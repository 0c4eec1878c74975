#pragma once
// Shared implementation of problems over rows: configurations, geometry, keys. Internal to templates/.

#include "templates/op.h"
#include "templates/row/shape.h"

namespace tunesmith::row {

class RowProblem : public ParsedProblem {
 public:
  KeyParts key() const override;
  Config default_config(const DeviceInfo& device) const override;
  Config complete_config(const DeviceInfo& device, const Config& partial) const override;
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override;
  std::string why_invalid(const DeviceInfo& device, const Config& config) const override;
  LaunchPlan launch_plan(const Config& config, const DeviceInfo& device) const override;
  Problem verification_problem() const override;

 protected:
  template <typename Typed>
  RowProblem(const Op& op, const Typed& typed, const Shape& shape) : ParsedProblem(op, typed), shape_(shape) {}

  const Shape& shape() const noexcept { return shape_; }

 private:
  const Shape shape_;
};

}  // namespace tunesmith::row
