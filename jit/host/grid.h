// A launch cut into groups of blocks, and the operating system threads that run them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/launch.h"
#include "jit/host/resident_group.h"
#include "tunesmith/device_info.h"

namespace tunesmith::host {

/// Empty when the geometry is one that CUDA would start on this device, else one line that names what is wrong.
std::string why_not_launchable(const KernelLaunch& launch, const DeviceInfo& device);

/// Resident groups that wait for work; they keep their stacks. Thread-safe.
class GroupPool {
 public:
  GroupPool(unsigned stack_shift, unsigned workers) : stack_shift_(stack_shift), workers_(workers) {}

  std::unique_ptr<ResidentGroup> take();
  void give(std::unique_ptr<ResidentGroup> group);

  unsigned stack_shift() const noexcept { return stack_shift_; }
  unsigned workers() const noexcept { return workers_; }

 private:
  const unsigned stack_shift_, workers_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ResidentGroup>> idle_;
};

/// Runs every block of a launch and returns when all have ended. Blocks that need not be resident together are spread over
/// pool.workers() threads. After a fault no new blocks are started; the fault of the first block that has one is thrown.
void run_grid(GroupPool& pool, const LaunchShape& shape, const abi::Entry& entry, const void* params);

}  // namespace tunesmith::host
