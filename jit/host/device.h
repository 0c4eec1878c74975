// The host executor as a Device: kernels that HostCompiler built run on the CPU.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "jit/device.h"

namespace tunesmith {

struct HostDeviceOptions {
  /// Number of operating system threads that run blocks; 0: one per CPU.
  unsigned workers = 0;
  /// Stack of a CUDA thread in bytes, with guard page and bookkeeping (about 9 KiB); rounded up to a power of two. Allowed:
  /// 32 KiB to 64 MiB. 0: 64 KiB, or 256 KiB with AddressSanitizer.
  std::size_t stack_bytes = 0;
  /// Compiler that provenance() reports, usually HostCompiler::identity().
  std::string compiler;
};

/// Runs kernels on the CPU. Device memory is host memory, and enqueue() returns when the kernel has finished. Thread-safe;
/// launches may run concurrently.
///
/// Deadlocks, misaligned addresses, addresses in the other memory (shared or global), and too much shared memory throw
/// Error(device_failed); the device remains usable. Out-of-bounds accesses are not detected; build with AddressSanitizer to
/// find them.
class HostDevice final : public Device {
 public:
  /// Creates the device. Throws Error(invalid_argument) if stack_bytes is out of range.
  explicit HostDevice(HostDeviceOptions options = {});
  ~HostDevice() override;

  /// Reports the sizes of an H100, so that default configurations are for sm_90a.
  const DeviceInfo& info() const noexcept override;
  std::map<std::string, std::string> provenance() const override;

  void* allocate(std::size_t bytes) override;
  void release(void* memory) noexcept override;
  void copy_to_device(void* device, const void* host, std::size_t bytes) override;
  void copy_to_host(void* host, const void* device, std::size_t bytes) override;
  void copy_on_device(void* to, const void* from, std::size_t bytes) override;
  void fill(void* device, unsigned char byte, std::size_t bytes) override;

  /// Loads a binary of HostCompiler::compile(), or the first request of one of compile_many().
  std::shared_ptr<Module> load(const Binary& binary) override;
  /// Loads one module per request of HostCompiler::compile_many(), in order; they share the library. Throws what load()
  /// does.
  std::vector<std::shared_ptr<Module>> load_all(const Binary& binary);
  /// Binds a kernel to its geometry. Throws Error(invalid_argument) for a geometry that CUDA would reject and
  /// Error(device_failed) for an unknown entry.
  std::unique_ptr<PreparedKernel> prepare(const Module& module, const KernelLaunch& launch) override;

  /// Tensor maps whose boxes are as wide as their swizzle; throws Error(unsupported) for others.
  std::unique_ptr<PreparedTensorMap> prepare_tensor_map(const LaunchPlan::TensorMap& map, const std::string& array) override;

  void synchronize(Stream stream) override;
  bool is_capturing(Stream stream) const override;
  std::vector<double> time_us(std::span<const std::function<void(Stream)>> works, bool flush_l2) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tunesmith
