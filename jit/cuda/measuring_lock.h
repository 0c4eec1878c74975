#pragma once
// One measurement at a time per GPU.

#include <filesystem>
#include <mutex>
#include <string>

namespace tunesmith {

/// Holds the measuring lock of a device while it lives: no other thread or process of this machine that uses it measures on
/// that GPU. It is a lock on the file <folder>/tunesmith-measuring-<uuid>.lock, released by the kernel when a process dies;
/// where no such file can be made, threads of this process are still kept apart.
class MeasuringLock {
 public:
  /// Waits. `folder`: empty for the system's temporary folder.
  MeasuringLock(const std::filesystem::path& folder, const std::string& uuid);
  ~MeasuringLock();
  MeasuringLock(const MeasuringLock&) = delete;
  MeasuringLock& operator=(const MeasuringLock&) = delete;

  bool across_processes() const noexcept { return file_ >= 0; }

 private:
  int file_ = -1;
  std::unique_lock<std::mutex> in_process_;
};

}  // namespace tunesmith
