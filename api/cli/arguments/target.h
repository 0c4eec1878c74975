#pragma once
// The device that source is generated for: this machine's GPU, or the typical device of an architecture.

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

/// Finds the target for an architecture ("sm_90a"; empty: the GPU's, else sm_90a). Throws Error(invalid_argument).
Target find_target(const std::string& arch);
/// Finds the targets for a comma-separated list of architectures, each once.
std::vector<Target> find_targets(const std::string& archs);

/// Completes the pinned configuration, else takes the recorded one if the device is present, else the default.
Config choose_config(const Op& op, const Problem& problem, const Target& target, const Config& pinned,
                     const TemplateSet& templates, const EngineOptions& options);

}  // namespace tunesmith::cli
