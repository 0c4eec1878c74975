#pragma once
// What source is made for: this machine's GPU, or the typical device of an architecture.

#include <string>
#include <vector>

#include "templates/op.h"
#include "templates/template_set.h"
#include "tunesmith/engine.h"

namespace tunesmith {
class Device;
}

namespace tunesmith::cli {

struct Target {
  DeviceInfo device;
  bool present = false;            ///< the device is in this machine
  std::shared_ptr<Device> handle;  ///< open, when present
};

/// `arch`: "sm_90a"; empty: the GPU's, else sm_90a. Throws Error(invalid_argument).
Target find_target(const std::string& arch);
/// A comma-separated list of them, without repetitions.
std::vector<Target> find_targets(const std::string& archs);

/// What is pinned, completed; else what the records say when the device is present; else the default.
Config choose_config(const Op& op, const Problem& problem, const Target& target, const Config& pinned,
                     const TemplateSet& templates, const EngineOptions& options);

}  // namespace tunesmith::cli
