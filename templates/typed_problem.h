#pragma once
// Problems whose configurations are structs of one type. Internal to templates/.

#include <string>

#include "templates/config_values.h"
#include "templates/op.h"

namespace tunesmith {

/// Implements the functions of ParsedProblem that take a configuration by functions that take Typed, which has to_config()
/// and ==.
template <typename Typed>
class TypedProblem : public ParsedProblem {
 public:
  using ParsedProblem::launch_plan, ParsedProblem::source_parts, ParsedProblem::why_invalid;

  KernelConfig configure(const Config& config) const final { return KernelConfig(read(config)); }
  KernelConfig default_kernel_config(const DeviceInfo& device) const final { return KernelConfig(default_of(device)); }
  std::string why_invalid(const DeviceInfo& device, const KernelConfig& config) const final {
    return why_invalid_of(device, config.as<Typed>());
  }
  /// The default with the pinned values.
  Config complete_config(const DeviceInfo& device, const Config& partial) const override {
    Config config = with_values(default_of(device).to_config(), partial);
    require_usable(config, why_invalid_of(device, read(config)));
    return config;
  }
  SourceParts source_parts(const KernelConfig& config) const final { return parts_of(config.as<Typed>()); }
  LaunchPlan launch_plan(const KernelConfig& config, const DeviceInfo& device) const final {
    return plan_of(config.as<Typed>(), device);
  }

 protected:
  using ParsedProblem::ParsedProblem;

  /// Throws as ParsedProblem::configure() does.
  virtual Typed read(const Config& config) const = 0;
  virtual Typed default_of(const DeviceInfo& device) const = 0;
  virtual std::string why_invalid_of(const DeviceInfo& device, const Typed& config) const = 0;
  virtual SourceParts parts_of(const Typed& config) const = 0;
  virtual LaunchPlan plan_of(const Typed& config, const DeviceInfo& device) const = 0;
};

}  // namespace tunesmith
