#pragma once
// A CUDA device with a module of kernels. Tests are skipped, with the reason, without a driver, GPU or NVRTC.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "jit/cuda/device.h"
#include "tests/jit/cuda/nvrtc_fixture.h"

namespace tunesmith {

inline constexpr const char* device_source = R"(struct Params { float* x; long long n; float factor; int repeats; };
extern "C" __global__ void scale(const Params p) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  for (int r = 0; r < p.repeats; ++r)
    if (i < p.n) ((volatile float*)p.x)[i] = p.factor * ((volatile float*)p.x)[i];
}
extern "C" __global__ void dynamic_sum(const Params p) {
  extern __shared__ float tile[];
  for (int i = threadIdx.x; i < p.n; i += blockDim.x) tile[i] = p.x[i];
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0;
    for (int i = 0; i < p.n; ++i) sum += tile[i];
    p.x[0] = sum;
  }
}
extern "C" __global__ void fill_rank(const Params p) {
  unsigned rank = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  if (threadIdx.x == 0) p.x[blockIdx.x] = (float)rank;
}
extern "C" __global__ void load_once(const Params p) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < p.n && p.x[i] == p.factor) p.x[i] = 0;
}
extern "C" __global__ void load_evict_last(const Params p) {
#if __CUDA_ARCH__ >= 800
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  unsigned long long policy;
  float value = 0;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  if (i < p.n) asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(value) : "l"(p.x + i), "l"(policy));
  if (value == p.factor) p.x[i] = 0;
#endif
}
)";

struct DeviceParams {
  float* x = nullptr;
  long long n = 0;
  float factor = 1;
  int repeats = 1;
};

class CudaGpu : public testing::Test {
 protected:
  void SetUp() override {
    try {
      device_ = std::make_unique<CudaDevice>(0);
      module_ = device_->load(NvrtcCompiler({.folders = test_folders(), .dump_folder = {}, .append_flags = {}})
                                  .compile({"gpu_test.cu", device_source, device_->info().arch}));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::no_device || error.code() == ErrorCode::no_compiler) GTEST_SKIP() << error.what();
      throw;
    }
  }
  void TearDown() override {
    module_.reset();
    device_.reset();
  }

  std::unique_ptr<PreparedKernel> prepare(const char* entry, std::uint32_t blocks, std::int64_t smem_bytes = 0,
                                          std::uint32_t cluster = 1) {
    KernelLaunch launch;
    launch.entry = entry;
    launch.grid.x = blocks;
    launch.block.x = 256;
    launch.cluster.x = cluster;
    launch.dynamic_smem_bytes = smem_bytes;
    return device_->prepare(*module_, launch);
  }
  float* upload(const std::vector<float>& values) {
    auto* const memory = static_cast<float*>(device_->allocate(values.size() * sizeof(float)));
    device_->copy_to_device(memory, values.data(), values.size() * sizeof(float));
    return memory;
  }
  std::vector<float> download(const float* memory, std::size_t count) {
    std::vector<float> values(count);
    device_->copy_to_host(values.data(), memory, count * sizeof(float));
    return values;
  }

  std::unique_ptr<CudaDevice> device_;
  std::shared_ptr<Module> module_;
};

}  // namespace tunesmith
