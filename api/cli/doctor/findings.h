#pragma once
// The searches of `tunesmith doctor`. None changes anything, except that a cache's damaged rows are removed.

#include <vector>

#include "api/cli/doctor/finding.h"
#include "api/cli/doctor/surroundings.h"
#include "tunesmith/engine.h"
#include "tunesmith/types.h"

namespace tunesmith::cli {

struct GpuFinding {
  Finding finding{};
  int driver_version = 0;     ///< CUDA's number, 13000; 0 without a driver that can be used
  std::vector<Arch> archs{};  ///< of the GPUs that can be used
};

Finding describe_system(const Surroundings& around);
/// `visible_devices`: the value of CUDA_VISIBLE_DEVICES, null if it is not set.
GpuFinding look_for_gpus(const Surroundings& around, const char* visible_devices);
Finding look_for_nvrtc(const EngineOptions& options, const GpuFinding& gpus);
Finding look_for_cublas_lt(const EngineOptions& options);
Finding look_for_host_compiler(const EngineOptions& options, bool has_gpu);
Finding look_at_cache(const EngineOptions& options);
Finding look_at_shipped_records(const EngineOptions& options);
Finding look_at_environment();

}  // namespace tunesmith::cli
