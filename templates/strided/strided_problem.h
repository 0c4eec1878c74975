#pragma once
// Shared implementation of problems over a strided dimension: configurations, keys, sources. Internal to templates/.

#include <string>
#include <utility>
#include <vector>

#include "templates/row/source.h"
#include "templates/strided/config.h"
#include "templates/typed_problem.h"

namespace tunesmith::strided {

/// The kernels of an operation, by their names in the generated source.
struct Kernels {
  std::string file;      ///< "softmax/strided.cuh"
  std::string function;  ///< "softmax_strided": the templates are function_resident, function_two_pass, ...
  std::string steps;     ///< the computation while a row is resident
  std::vector<std::pair<std::string, std::string>> features;  ///< members of RowFeatures: {"Arithmetic", "FastArithmetic"}
  std::vector<std::string> overloads{};                       ///< included before `file`
  std::vector<std::string> for_double = row::overloads_for_double();  ///< likewise, by kernels of double
};

class StridedProblem : public TypedProblem<TypedConfig> {
 public:
  KeyParts key() const override;
  Config complete_config(const DeviceInfo& device, const Config& partial) const override;
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override;
  Problem verification_problem() const override;

 protected:
  template <typename Typed>
  StridedProblem(const Op& op, const Typed& typed, const Shape& shape) : TypedProblem(op, typed), shape_(shape) {}

  TypedConfig read(const Config& config) const override { return TypedConfig::parse(config); }
  TypedConfig default_of(const DeviceInfo& device) const override;
  std::string why_invalid_of(const DeviceInfo& device, const TypedConfig& config) const override;
  SourceParts parts_of(const TypedConfig& typed) const override;
  LaunchPlan plan_of(const TypedConfig& typed, const DeviceInfo& device) const override;
  const Shape& shape() const noexcept { return shape_; }

 private:
  virtual Kernels kernels() const = 0;

  const Shape shape_;
};

}  // namespace tunesmith::strided
