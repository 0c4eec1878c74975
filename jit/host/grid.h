// Splits a launch into groups of blocks and runs them on operating system threads.
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

/// Returns an empty string if CUDA would launch this geometry on the device, otherwise one line with the reason.
std::string why_not_launchable(const KernelLaunch& launch, const DeviceInfo& device);

/// Idle resident groups, which keep their stacks for reuse. Thread-safe.
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

/// Runs every block of a launch and returns when all have finished. Blocks that need not be resident together are
/// distributed over pool.workers() threads. After a fault no new blocks start; the fault of the lowest block is thrown.
void run_grid(GroupPool& pool, const LaunchShape& shape, const abi::Entry& entry, const void* params);

}  // namespace tunesmith::host
