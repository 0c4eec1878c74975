#pragma once
// Causes and remedies: pure functions of the facts that `tunesmith doctor` has found.

#include <string>
#include <vector>

#include "api/cli/doctor/finding.h"
#include "api/cli/doctor/surroundings.h"
#include "cache/cache.h"
#include "cache/file_facts.h"
#include "jit/cuda/driver.h"
#include "jit/cuda/library_search.h"
#include "tunesmith/types.h"

namespace tunesmith::cli {

/// "12.4", from CUDA's number 12040.
std::string cuda_version(int number);

/// Why no GPU can be used; empty if one can, or if the machine has none. `visible_devices`: the value of
/// CUDA_VISIBLE_DEVICES, null if it is not set.
std::vector<Diagnosis> driver_diagnoses(const Surroundings& around, const DriverFacts& driver, const char* visible_devices);

/// What was found of NVRTC.
struct NvrtcFacts {
  NvrtcLocation location;             ///< the library in use; not found if only the loader knows it, or if there is none
  std::string error;                  ///< why it cannot be used; empty if it can
  int major = 0, minor = 0;           ///< as the library says
  std::vector<Arch> archs;            ///< that it compiles for
  std::vector<NvrtcLocation> others;  ///< found, but not in use
  bool in_environment = false;        ///< a virtual environment is active, which is searched, too
};
/// Why kernels cannot be compiled for the GPUs. `driver_version`: CUDA's number of the driver; 0 if there is none.
/// `gpus`: their architectures.
std::vector<Diagnosis> nvrtc_diagnoses(const NvrtcFacts& nvrtc, int driver_version, const std::vector<Arch>& gpus);

/// Why the cache file is not used, or not written. `damage`: of Cache::verify().
std::vector<Diagnosis> cache_diagnoses(const CacheFileFacts& file, const CacheInfo& info,
                                       const std::vector<std::string>& damage);

}  // namespace tunesmith::cli
