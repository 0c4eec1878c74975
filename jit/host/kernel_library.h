// A loaded shared library of kernels, and the modules that each expose the kernels of one request.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jit/device.h"
#include "jit/host/grid.h"

namespace tunesmith::host {

class KernelLibrary {
 public:
  /// Loads the image. Throws Error(device_failed) if it is not a kernel library of this executor's ABI and Error(io) if no
  /// temporary file can be written.
  KernelLibrary(const std::string& image, unsigned stack_shift);
  ~KernelLibrary();
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  const abi::Library& table() const noexcept { return *table_; }

 private:
  void* handle_ = nullptr;
  const abi::Library* table_ = nullptr;
};

class HostModule final : public Module {
 public:
  HostModule(std::shared_ptr<const KernelLibrary> library, std::size_t source, const DeviceInfo& device);
  int occupancy(const KernelLaunch& launch) const override;
  /// Finds a kernel by name. If it is unknown, throws Error(device_failed) with the names of all kernels.
  const abi::Entry& find(std::string_view entry) const;

 private:
  std::shared_ptr<const KernelLibrary> library_;
  std::vector<abi::Entry> entries_;
  const DeviceInfo device_;
};

}  // namespace tunesmith::host
