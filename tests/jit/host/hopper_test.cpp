// Hopper's features on the host executor: TMA, barriers, named barriers and wgmma pass the checks of a GPU, and kernels that
// wait too late or never are detected.

#include <gtest/gtest.h>

#include <chrono>

#include "jit/host/compiler.h"
#include "jit/host/device.h"
#include "tests/jit/cuda/tensor_map_checks.h"
#include "tests/jit/host/kernels.h"

namespace tunesmith::test {
namespace {

class HostHopper : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    device_ = std::make_unique<HostDevice>();
    module_ = device_->load(HostCompiler(test_compiler_options())
                                .compile({"tensor_map_test.cu", TensorMapChecks::all_kernels(), Arch{9, 0, 'a'}}));
  }
  static void TearDownTestSuite() {
    module_.reset();
    device_.reset();
  }

  inline static std::unique_ptr<HostDevice> device_;
  inline static std::shared_ptr<Module> module_;
  TensorMapChecks checks_{*device_, module_};
};

TEST_F(HostHopper, ProductsAgreeWithFloat64) {
  for (const Product& product : products) checks_.agrees_with_float64(product);
}

TEST_F(HostHopper, CopiesFiveDimensionalBoxesAndFillsWithZeros) {
  checks_.copies_five_dimensional_boxes_and_fills_with_zeros();
}

TEST_F(HostHopper, StoresMatricesTransposed) { checks_.stores_matrices_transposed(); }

// ---- Faults -------------------------------------------------------------------------------------------------------------

/// Each thread multiplies or copies with something missing; `out` gets what it read.
constexpr const char* faulty = R"(
using namespace tunesmith;
struct Params {
  int what;
  float* out;
  const float* in;
  alignas(64) TensorMap map;
};
extern "C" __global__ void __launch_bounds__(128) faulty(const __grid_constant__ Params params) {
  unsigned char* const memory = dynamic_shared();
  const uint32 shared = shared_address(memory), barrier = shared + 32768;
  const float* const values = reinterpret_cast<const float*>(memory);
  const int i = thread_index(), what = params.what;
  if (i == 0 && what != 4) barrier_init(barrier, what == 3 ? 2 : 1);
  sync_block();
  if (what < 20) {  // bulk copies and barriers
    if (i != 0) return;
    if (what == 2) barrier_arrive(barrier), barrier_wait(barrier, 0), barrier_wait(barrier, 1);
    if (what == 4) barrier_arrive(barrier);
    if (what == 5) barrier_arrive_expecting(barrier, 512), barrier_arrive(barrier);
    if (what == 6) load_tile(shared, params.map, barrier, L2Hint::evict_first, 0, 0, 0, 0);
    if (what == 7) copy_bulk(shared + 8, params.in, 512, barrier, L2Hint::evict_first);
    if (what == 8) copy_bulk(shared + 65536, params.in, 512, barrier, L2Hint::evict_first);
    if (what == 9) reduce_add_bulk(params.out, shared, 16, L2Hint::evict_last);
    if (what >= 12) {  // bulk stores to what in[] holds
      float* const staged = reinterpret_cast<float*>(memory);
      for (int k = 0; k < 128; ++k) params.out[k] = params.in[k], staged[k] = 1.0f;
      store_or_add_bulk(params.out, shared, 512, L2Hint::evict_last, what == 12);
      store_commit();
      if (what == 14) staged[100] = 2.0f;
      store_wait<0>();
    }
    if (what == 10) sync_threads(16, 32);
    if (what == 11) sync_threads(1, 64);
    if (what > 3) return;
    barrier_arrive_expecting(barrier, 512);
    copy_bulk(shared, params.in, 512, barrier, L2Hint::evict_first);
    if (what == 0 || what == 3) barrier_wait(barrier, 0);
    for (int k = 0; k < 128; ++k) params.out[k] = values[k];
    if (what == 1) barrier_wait(barrier, 0);
    return;
  }
  // A is of ones, B of twos: every accumulator is 32.
  float d[4] = {1, 1, 1, 1};
  for (int k = i; k < 8192; k += 128) reinterpret_cast<uint32*>(memory)[k] = k < 4096 ? pack<bf16>(1, 1) : pack<bf16>(2, 2);
  fence_async_shared();
  sync_block();
  wgmma_fence(d);
  const MatrixDescriptor b = matrix_descriptor(what == 25 ? shared + 65536 : shared + 16384, 1024);
  wgmma<bf16, Innermost::k>(d, matrix_descriptor(shared, 1024), b, what == 24);
  wgmma_commit();
  if (what == 21) params.out[i] = d[0];
  if (what == 22) d[0] = 5;
  if (what == 23) {
    sync_block();
    reinterpret_cast<uint32*>(memory)[i] = pack<bf16>(0, 0);
  }
  if (what != 26) wgmma_wait<0>(d);
  if (what != 21) params.out[i] = d[0];
}
)";

class HostHopperFaults : public testing::Test {
 protected:
  struct alignas(64) Params {
    int what;
    float* out;
    const float* in;
    alignas(64) unsigned char map[128];
  };
  static void SetUpTestSuite() {
    // The executor's header has the functions of device/bulk.cuh, too.
    const std::string source =
        TemplateSet::embedded().flatten("device/wgmma.cuh") + "namespace tunesmith {\nTUNESMITH_WGMMA_8\n}\n" + faulty;
    kernels_ = std::make_unique<Kernels>(CompileRequest{"kernel.cu", source, Arch{9, 0, 'a'}});
  }
  static void TearDownTestSuite() { kernels_.reset(); }

  /// Returns what the kernel wrote.
  std::vector<float> results(int what) {
    std::vector<float> in(128), out(128, -1);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
    KernelLaunch launch = launch_of("faulty", {1}, {128});
    launch.dynamic_smem_bytes = 65536;
    kernels_->run(launch, Params{what, out.data(), in.data(), {}});
    return out;
  }
  std::string error(int what) {
    try {
      results(what);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  inline static std::unique_ptr<Kernels> kernels_;
};

TEST_F(HostHopperFaults, CopiesLandWhenAThreadWaits) {
  const std::vector<float> waited = results(0), early = results(1);
  for (std::size_t i = 0; i < 128; ++i) {
    EXPECT_EQ(waited[i], static_cast<float>(i));
    EXPECT_TRUE(std::isnan(early[i])) << i;
  }
}

TEST_F(HostHopperFaults, BarriersThatCannotCompleteAreErrors) {
  EXPECT_NE(
      error(2).find("thread (0,0,0) of block 0 waits at a barrier for phase 1, which lacks 1 arrivals and 0 bytes, and no "
                    "thread is left to change that"),
      std::string::npos)
      << error(2);
  EXPECT_NE(error(3).find("which lacks 1 arrivals and 0 bytes"), std::string::npos) << error(3);
  EXPECT_NE(error(4).find("arrives at a barrier that is not initialized"), std::string::npos) << error(4);
  EXPECT_NE(error(5).find("arrives at a barrier that all 1 have reached; its phase waits for 512 bytes"), std::string::npos)
      << error(5);
  EXPECT_NE(error(10).find("meets 32 threads at barrier 16; allowed"), std::string::npos) << error(10);
  EXPECT_NE(error(11).find("waits in sync_threads, where 1 of 64 threads are"), std::string::npos) << error(11);
}

TEST_F(HostHopperFaults, WrongCopiesAreErrors) {
  EXPECT_NE(error(6).find("uses the tensor map of an array that is missing"), std::string::npos) << error(6);
  EXPECT_NE(error(7).find("both must be multiples of 16"), std::string::npos) << error(7);
  EXPECT_NE(error(8).find("that are not in shared memory"), std::string::npos) << error(8);
  EXPECT_NE(error(9).find("returns without waiting for 1 of its stores through TMA"), std::string::npos) << error(9);
}

TEST_F(HostHopperFaults, BulkStoresReplaceOrAddAndTheirSourceMustNotChange) {
  const std::vector<float> stored = results(12), added = results(13);
  for (std::size_t i = 0; i < 128; ++i) {
    EXPECT_EQ(stored[i], 1.0f);
    EXPECT_EQ(added[i], static_cast<float>(i) + 1.0f);
  }
  EXPECT_NE(error(14).find("issues a bulk store of shared memory that changes before the store has read it"),
            std::string::npos)
      << error(14);
}

TEST_F(HostHopperFaults, ProductsTakeUntilTheThreadWaits) {
  EXPECT_EQ(results(20), std::vector<float>(128, 32));
  for (const float value : results(21)) EXPECT_TRUE(std::isnan(value));  // read too early
  EXPECT_EQ(results(22), std::vector<float>(128, 32));                   // written too early: lost
  EXPECT_NE(results(23), std::vector<float>(128, 32));                   // an operand was overwritten
  EXPECT_EQ(results(24), std::vector<float>(128, 33));
  EXPECT_NE(error(25).find("multiplies a matrix that is not all in shared memory"), std::string::npos) << error(25);
  EXPECT_NE(error(26).find("returns without waiting for 1 of its warpgroup's products"), std::string::npos) << error(26);
}

/// Each block waits until the block `step` before it has counted itself, if there is one.
constexpr const char* counting = R"(
using namespace tunesmith;
struct Params {
  int step;
  uint32* counts;
};
extern "C" __global__ void counting(const __grid_constant__ Params params) {
  const int64 block = block_index(), awaited = block - params.step;
  if (awaited >= 0 && awaited < 8) wait_for_count(params.counts + awaited, 1);
  sync_block();
  if (thread_index() == 0) add_relaxed(params.counts + block, 1);
}
)";

TEST(HostHopperCounts, BlocksThatWaitForEachOtherFailAtOnce) {
  struct Params {
    int step;
    std::uint32_t* counts;
  };
  HostDeviceOptions options;
  options.workers = 3;
  Kernels kernels(CompileRequest{"kernel.cu", TemplateSet::embedded().flatten("device/wgmma.cuh") + counting, {9, 0, 'a'}},
                  options);
  const KernelLaunch launch = launch_of("counting", {8}, {64});
  for (const int step : {1, 2, 5}) {
    std::vector<std::uint32_t> counts(8);
    kernels.run(launch, Params{step, counts.data()});
    EXPECT_EQ(counts, std::vector<std::uint32_t>(8, 1)) << step;
  }
  // Each block waits for itself; or for one that starts when another has ended.
  for (const int step : {0, -3, -4, -5}) {
    std::vector<std::uint32_t> counts(8);
    const auto start = std::chrono::steady_clock::now();
    try {
      kernels.run(launch, Params{step, counts.data()});
      ADD_FAILURE() << step;
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find("waits for the count 1 of a word that is 0, and no thread is left to"),
                std::string_view::npos)
          << error.what();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << step;
  }
}

}  // namespace
}  // namespace tunesmith::test
