// A loaded shared library of kernels and the modules that see a part of it each.
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
  /// Throws Error(device_failed) for an image that is not a kernel library of this executor's ABI, Error(io) when no
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
  /// Throws Error(device_failed) that lists the entries there are.
  const abi::Entry& find(std::string_view entry) const;

 private:
  std::shared_ptr<const KernelLibrary> library_;
  std::vector<abi::Entry> entries_;
  const DeviceInfo device_;
};

}  // namespace tunesmith::host
