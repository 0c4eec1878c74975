// The host executor as a Device: kernels that HostCompiler built run on the CPU.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "jit/device.h"

namespace tunesmith {

struct HostDeviceOptions {
  /// Operating system threads that blocks are spread over; 0: one per CPU.
  unsigned workers = 0;
  /// Stack of a CUDA thread in bytes, guard page and bookkeeping (about 9 KiB) included, rounded up to a power of two;
  /// allowed 32 KiB to 64 MiB. 0: 64 KiB, or 256 KiB when built with AddressSanitizer.
  std::size_t stack_bytes = 0;
  /// What provenance() says about the compiler; HostCompiler::identity() is meant.
  std::string compiler;
};

/// Device memory is the process's own; enqueue() returns when the kernel has ended. A kernel's faults that the executor
/// detects - threads that wait for one another in vain, misaligned loads and stores, too much shared memory - are
/// Error(device_failed), after which the device is as good as before. Invalid memory accesses are the process's own: build
/// with AddressSanitizer to see them named. Thread-safe; launches may run at the same time.
class HostDevice final : public Device {
 public:
  /// Throws Error(invalid_argument) for a stack size that is not allowed.
  explicit HostDevice(HostDeviceOptions options = {});
  ~HostDevice() override;

  /// Sizes are those of an H100, so that default configurations are those of sm_90a.
  const DeviceInfo& info() const noexcept override;
  std::map<std::string, std::string> provenance() const override;

  void* allocate(std::size_t bytes) override;
  void release(void* memory) noexcept override;
  void copy_to_device(void* device, const void* host, std::size_t bytes) override;
  void copy_to_host(void* host, const void* device, std::size_t bytes) override;
  void copy_on_device(void* to, const void* from, std::size_t bytes) override;
  void fill(void* device, unsigned char byte, std::size_t bytes) override;

  /// The binary of HostCompiler::compile(); of compile_many(), its first request.
  std::shared_ptr<Module> load(const Binary& binary) override;
  /// One module per request of HostCompiler::compile_many(), in order; they share the library. Same errors as load().
  std::vector<std::shared_ptr<Module>> load_all(const Binary& binary);
  /// Throws Error(invalid_argument) for a geometry that CUDA would refuse, Error(device_failed) when there is no such entry.
  std::unique_ptr<PreparedKernel> prepare(const Module& module, const KernelLaunch& launch) override;

  void synchronize(Stream stream) override;
  bool is_capturing(Stream stream) const override;
  std::vector<double> time_us(std::span<const std::function<void(Stream)>> works, bool flush_l2) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tunesmith
