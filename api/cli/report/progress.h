#pragma once
// Shows the progress of long work on stderr: a bar on a terminal, a line every few seconds elsewhere.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace tunesmith::cli {

/// Thread-safe. Without a terminal, work that ends within a few seconds shows nothing.
class Progress {
 public:
  explicit Progress(std::string title);
  /// Clears the bar.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(int done, int total, const std::string& what);

 private:
  void show();
  std::string line(std::size_t bar_width) const;

  const std::string title_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  int done_ = 0, total_ = 0;
  std::string what_;
  bool finished_ = false, shown_ = false;
  std::thread thread_;
};

}  // namespace tunesmith::cli
