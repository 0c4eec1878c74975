#pragma once
// A CudaDevice on the scripted driver.

#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>

#include "jit/cuda/device.h"
#include "tests/jit/cuda/device_fake.h"
#include "tests/jit/cuda/nvrtc_fixture.h"

namespace tunesmith {

class CudaDeviceTest : public testing::Test {
 protected:
  CudaDeviceTest() {
    void* const library = dlopen(FAKE_LIBCUDA, RTLD_NOW);
    fake_ = reinterpret_cast<FakeCuda* (*)()>(dlsym(library, "fake_cuda"))();
    fake_->~FakeCuda();
    new (fake_) FakeCuda;
    push_ = reinterpret_cast<cuda::Result (*)(cuda::ContextHandle)>(dlsym(library, "cuCtxPushCurrent_v2"));
    pop_ = reinterpret_cast<cuda::Result (*)(cuda::ContextHandle*)>(dlsym(library, "cuCtxPopCurrent_v2"));
  }
  ~CudaDeviceTest() override {
    cuda::ContextHandle left = nullptr;
    EXPECT_NE(pop_(&left), cuda::success) << "a context was left on the thread";
    EXPECT_TRUE(fake_->unsafe_calls.empty()) << fake_->unsafe_calls.front() << " may break another thread's capture";
  }

  CudaDevice& device() {
    if (device_ == nullptr)
      device_ = std::make_unique<CudaDevice>(
          Driver::open(FAKE_LIBCUDA),
          CudaDeviceOptions{.ordinal = ordinal_, .lock_folder = folder_.path(), .nvml_library = nvml_library_});
    return *device_;
  }
  /// Returns the smallest image that passes check_cubin().
  static Binary binary() {
    Elf64_Ehdr header = {};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_machine = 190;
    header.e_shoff = sizeof header;
    header.e_shnum = 1;
    header.e_shentsize = sizeof(Elf64_Shdr);
    Binary result;
    result.image =
        std::string(reinterpret_cast<const char*>(&header), sizeof header) + std::string(sizeof(Elf64_Shdr), '\0');
    return result;
  }
  static KernelLaunch scale(std::uint32_t blocks = 4, std::int64_t smem_bytes = 0) {
    KernelLaunch launch;
    launch.entry = "scale";
    launch.grid = {blocks, 1, 1};
    launch.block = {128, 1, 1};
    launch.dynamic_smem_bytes = smem_bytes;
    return launch;
  }
  void fail(const char* call, cuda::Result result, int times = 1) {
    fake_->failing_call = call;
    fake_->failure = result;
    fake_->failures = times;
  }
  const std::string& last_call() const { return fake_->calls.back(); }
  std::string last_launch() const {
    for (auto call = fake_->calls.rbegin(); call != fake_->calls.rend(); ++call)
      if (call->starts_with("cuLaunchKernel")) return *call;
    return {};
  }

  TemporaryFolder folder_;
  FakeCuda* fake_ = nullptr;
  cuda::Result (*push_)(cuda::ContextHandle) = nullptr;
  cuda::Result (*pop_)(cuda::ContextHandle*) = nullptr;
  int ordinal_ = 0;
  std::string nvml_library_;
  std::unique_ptr<CudaDevice> device_;
  std::byte params_[16] = {};
};

/// Makes an application's context current for its lifetime.
class CurrentContext {
 public:
  CurrentContext(cuda::Result (*push)(cuda::ContextHandle), cuda::Result (*pop)(cuda::ContextHandle*),
                 cuda::ContextHandle context)
      : pop_(pop) {
    push(context);
  }
  ~CurrentContext() {
    cuda::ContextHandle context = nullptr;
    pop_(&context);
  }

 private:
  cuda::Result (*pop_)(cuda::ContextHandle*);
};

}  // namespace tunesmith
