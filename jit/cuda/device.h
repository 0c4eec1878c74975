#pragma once
// One GPU through the CUDA Driver API.

#include <filesystem>
#include <memory>
#include <mutex>

#include "jit/cuda/driver.h"
#include "jit/device.h"

namespace tunesmith {

class CudaTimer;
class Nvml;

struct CudaDeviceOptions {
  int ordinal = 0;  ///< CUDA ordinal, after CUDA_VISIBLE_DEVICES
  /// Folder of the lock file that serializes measurements. Default empty: the system's temporary folder.
  std::filesystem::path lock_folder;
  /// NVML's path or name, for provenance() and conditions(). Empty: neither asks it.
  std::string nvml_library = "libnvidia-ml.so.1";
};

/// A GPU. Thread-safe. Enqueued work must be complete before a module or the device is destroyed.
class CudaDevice final : public Device {
 public:
  /// Initializes CUDA without creating a context. Throws Error(no_device) with the ordinal and the number of GPUs.
  explicit CudaDevice(std::shared_ptr<const Driver> driver, CudaDeviceOptions options = {});
  /// Does the same with the driver found in the standard places.
  explicit CudaDevice(int ordinal) : CudaDevice(Driver::open(), {.ordinal = ordinal, .lock_folder = {}}) {}
  ~CudaDevice() override;

  const DeviceInfo& info() const noexcept override { return info_; }
  std::map<std::string, std::string> provenance() const override;
  DeviceConditions conditions() const override;

  void* allocate(std::size_t bytes) override;
  void release(void* memory) noexcept override;
  void copy_to_device(void* device, const void* host, std::size_t bytes) override;
  void copy_to_host(void* host, const void* device, std::size_t bytes) override;
  void copy_on_device(void* to, const void* from, std::size_t bytes) override;
  void copy_async(void* to, const void* from, std::size_t bytes, Stream stream) override;
  void fill(void* device, unsigned char byte, std::size_t bytes) override;
  void fill_async(void* device, unsigned char byte, std::size_t bytes, Stream stream) override;

  std::shared_ptr<Module> load(const Binary& binary) override;
  std::unique_ptr<PreparedKernel> prepare(const Module& module, const KernelLaunch& launch) override;
  std::unique_ptr<PreparedTensorMap> prepare_tensor_map(const LaunchPlan::TensorMap& map, const std::string& array) override;

  void synchronize(Stream stream) override;
  bool is_capturing(Stream stream) const override;
  std::vector<double> time_us(std::span<const std::function<void(Stream)>> works, bool flush_l2) override;

  const Driver& driver() const noexcept { return *driver_; }
  cuda::DeviceHandle handle() const noexcept { return handle_; }
  const std::string& uuid() const noexcept { return uuid_; }  ///< "GPU-xxxxxxxx-...", or "MIG-..."
  /// Returns the device's primary context. The first call retains it; the destructor releases it.
  cuda::ContextHandle primary_context() const;
  int attribute(cuda::DeviceAttribute attribute) const;

 private:
  void read_info();
  template <typename Copy>
  void copy(const char* call, std::size_t bytes, const Copy& enqueue);

  const std::shared_ptr<const Driver> driver_;
  const CudaDeviceOptions options_;
  cuda::DeviceHandle handle_ = 0;
  DeviceInfo info_;
  std::string uuid_;
  mutable std::mutex mutex_;  // guards the members below
  mutable cuda::ContextHandle primary_ = nullptr;
  mutable std::map<std::string, std::string> provenance_;
  mutable std::mutex nvml_mutex_;  // guards the member below; asking takes too long for the other mutex
  mutable std::unique_ptr<const Nvml> nvml_;
  std::mutex timer_mutex_;  // held for a whole measurement
  std::unique_ptr<CudaTimer> timer_;
};

}  // namespace tunesmith
