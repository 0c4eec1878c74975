// AddressSanitizer detects overruns in kernels. The tests are skipped in other builds.
#include <gtest/gtest.h>

#include "tests/jit/host/kernels.h"

namespace tunesmith {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool with_asan = true;
#else
constexpr bool with_asan = false;
#endif

struct SanitizedParams {
  int* array;
  int at;
};

// Kernels that write element `at` of 10 in device memory, dynamic shared memory and static shared memory.
constexpr const char* writers = R"(
struct SanitizedParams { int* array; int at; };
extern "C" __global__ void device_memory(const __grid_constant__ SanitizedParams params) {
  tunesmith::sync_block();
  params.array[params.at] = 1;
}
extern "C" __global__ void dynamic_memory(const __grid_constant__ SanitizedParams params) {
  tunesmith::sync_block();
  reinterpret_cast<volatile int*>(tunesmith::dynamic_shared())[params.at] = 1;
}
extern "C" __global__ void static_memory(const __grid_constant__ SanitizedParams params) {
  TUNESMITH_SHARED(int, memory, 10);
  tunesmith::sync_block();
  volatile int* const first = memory;
  first[params.at] = 1;
}
)";

class HostExecutorSanitizer : public testing::TestWithParam<const char*> {};

TEST_P(HostExecutorSanitizer, DetectsAnOverrunByOneElement) {
  if (!with_asan) GTEST_SKIP() << "this build has no AddressSanitizer";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Kernels kernels(writers);
  void* const array = kernels.device.allocate(10 * sizeof(int));
  KernelLaunch launch = launch_of(GetParam(), {1}, {64});
  launch.dynamic_smem_bytes = 10 * sizeof(int);
  kernels.run(launch, SanitizedParams{static_cast<int*>(array), 9});
  for (const int outside : {-1, 10})
    EXPECT_DEATH(kernels.run(launch, SanitizedParams{static_cast<int*>(array), outside}),
                 "AddressSanitizer: .*-(overflow|poison)")
        << "element " << outside;
  kernels.device.release(array);
}

INSTANTIATE_TEST_SUITE_P(Memory, HostExecutorSanitizer, testing::Values("device_memory", "dynamic_memory", "static_memory"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace tunesmith
