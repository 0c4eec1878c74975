// The scripted NVML of nvml_fake.h. With TUNESMITH_FAKE_OLD_DRIVER it has the names of drivers before 535.

#include "tests/jit/cuda/nvml_fake.h"

#include <cstring>

namespace {

tunesmith::FakeNvml state;

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

}  // namespace

extern "C" {

tunesmith::FakeNvml* fake_nvml() { return &state; }

int nvmlInitWithFlags(unsigned) {
  if (state.init_result == 0) ++state.open;
  return state.init_result;
}
int nvmlShutdown() {
  --state.open;
  return 0;
}
int nvmlSystemGetDriverVersion(char* version, unsigned size) {
  std::strncpy(version, "580.1", size);
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  *device = &state;
  return state.uuid == uuid ? 0 : 6;
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) {
  *milliwatts = state.power_limit_mw;
  return state.fact_result;
}
int nvmlDeviceGetClockInfo(void*, int type, unsigned* mhz) {
  *mhz = type == 1 ? state.sm_clock_mhz : 1;
  return state.fact_result;
}

#ifdef TUNESMITH_FAKE_OLD_DRIVER
#define REASONS nvmlDeviceGetCurrentClocksThrottleReasons
#define PROCESSES nvmlDeviceGetComputeRunningProcesses_v2
#else
#define REASONS nvmlDeviceGetCurrentClocksEventReasons
#define PROCESSES nvmlDeviceGetComputeRunningProcesses_v3
#endif
int REASONS(void*, unsigned long long* reasons) {
  *reasons = state.clock_reasons;
  return state.fact_result;
}
int PROCESSES(void*, unsigned* count, ProcessInfo* found) {
  const auto room = *count;
  *count = static_cast<unsigned>(state.pids.size());
  if (state.fact_result != 0) return state.fact_result;
  if (room < *count) return 7;
  for (unsigned i = 0; i < *count; ++i) found[i] = {state.pids[i], 1 << 20, 0, 0};
  return 0;
}

}  // extern "C"
