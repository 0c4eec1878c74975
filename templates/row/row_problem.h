#pragma once
// Shared implementation of problems over rows: configurations, geometry, keys, sources. Internal to templates/.

#include <utility>

#include "templates/row/source.h"
#include "templates/typed_problem.h"

namespace tunesmith::row {

/// Returns ParsedProblem::capacity_class() of a problem over rows of this shape: the shape's, and all fields but the sizes,
/// which are in the shape's or not compiled in.
std::string capacity_class(const ParsedProblem& problem, const Shape& shape);
/// Returns ParsedProblem::in_buckets() of a problem over rows of this shape.
std::vector<ParsedProblemPtr> in_buckets(const ParsedProblem& problem, const Shape& shape, std::int64_t least,
                                         std::int64_t most);

class RowProblem : public TypedProblem<TypedConfig> {
 public:
  KeyParts key() const override;
  Config complete_config(const DeviceInfo& device, const Config& partial) const override;
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override;
  std::optional<Config> capacity_config(const DeviceInfo& device) const override;
  std::int64_t capacity() const noexcept override { return shape_.capacity(); }
  std::string capacity_class() const override;
  std::vector<ParsedProblemPtr> in_buckets(std::int64_t least, std::int64_t most) const override;
  Problem verification_problem() const override;

 protected:
  /// `own`: parameters beyond those that all row kernels have. `problem_class`: text that follows the shape's, for other
  /// properties that decide which configuration is fast.
  template <typename Typed>
  RowProblem(const Op& op, const Typed& typed, const Shape& shape, OwnParams own = {}, std::string problem_class = {})
      : TypedProblem(op, typed), shape_(shape), own_(std::move(own)), problem_class_(std::move(problem_class)) {}

  TypedConfig read(const Config& config) const override { return TypedConfig::parse(config); }
  TypedConfig default_of(const DeviceInfo& device) const override;
  std::string why_invalid_of(const DeviceInfo& device, const TypedConfig& config) const override;
  SourceParts parts_of(const TypedConfig& config) const override;
  LaunchPlan plan_of(const TypedConfig& config, const DeviceInfo& device) const override;
  const Shape& shape() const noexcept { return shape_; }
  /// Every input read once, every output written once.
  Cost cost_of_arrays(double flops) const;

 private:
  /// The kernels of this configuration; `shape` as the configuration takes it.
  virtual Kernels kernels(const TypedConfig& config, const Shape& shape) const = 0;

  const Shape shape_;
  const OwnParams own_;
  const std::string problem_class_;
};

}  // namespace tunesmith::row
