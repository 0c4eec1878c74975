#pragma once
// A scripted NVML: a shared library with its exported names, which knows one GPU. The library exports its state as
// fake_nvml().

#include <string>
#include <vector>

namespace tunesmith {

struct FakeNvml {
  std::string uuid;     ///< of the GPU
  int init_result = 0;  ///< of nvmlInitWithFlags
  int fact_result = 0;  ///< of every question about the GPU
  unsigned sm_clock_mhz = 1980, power_limit_mw = 700000;
  unsigned long long clock_reasons = 0;
  std::vector<unsigned> pids;  ///< of compute processes
  int open = 0;                ///< initializations without a shutdown
};

}  // namespace tunesmith
