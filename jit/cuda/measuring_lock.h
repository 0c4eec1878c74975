#pragma once
// A lock that permits one measurement at a time per GPU.

#include <chrono>
#include <filesystem>
#include <mutex>
#include <string>

namespace tunesmith {

/// Holds the measuring lock of a GPU for its lifetime, across all threads and processes of this machine. It locks the file
/// <folder>/tunesmith-measuring-<uuid>.lock, which the kernel releases when the process dies. If the file cannot be made, it
/// still excludes other threads of this process.
class MeasuringLock {
 public:
  /// Waits for the lock. An empty `folder` means the system's temporary folder. Throws Error(cancelled) if another process
  /// holds the lock for longer than `timeout`: measurements hold it for milliseconds, a stopped process holds it forever.
  /// Processes wait in no order, so that one of twenty can wait for a minute.
  MeasuringLock(const std::filesystem::path& folder, const std::string& uuid,
                std::chrono::milliseconds timeout = std::chrono::minutes(5));
  ~MeasuringLock();
  MeasuringLock(const MeasuringLock&) = delete;
  MeasuringLock& operator=(const MeasuringLock&) = delete;

  bool across_processes() const noexcept { return file_ >= 0; }

 private:
  int file_ = -1;
  std::unique_lock<std::mutex> in_process_;
};

}  // namespace tunesmith
