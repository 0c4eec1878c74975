#pragma once
// Builds candidates on several threads while the tuning thread verifies finished ones.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tuner/build.h"

namespace tunesmith {

class CompilePool {
 public:
  struct Outcome {
    std::size_t index = 0;
    Built built;
    std::exception_ptr failure;  ///< set: what build(index) threw
  };

  /// Starts build(0), build(1), ... in this order on `jobs` threads; 0: one per core. `yielding` threads have a low
  /// priority, for other processes that measure.
  CompilePool(std::size_t count, int jobs, std::function<Built(std::size_t)> build, bool yielding = false);
  /// Starts no further build and waits for those under way.
  ~CompilePool();
  CompilePool(const CompilePool&) = delete;
  CompilePool& operator=(const CompilePool&) = delete;

  /// The next finished build, in order of completion; nothing when `timeout` passes first.
  std::optional<Outcome> next(std::chrono::milliseconds timeout);

  /// Reports whether every build has ended.
  bool is_finished() const;

 private:
  void work();

  std::function<Built(std::size_t)> build_;
  const std::size_t count_;
  const bool yielding_;
  mutable std::mutex mutex_;
  std::condition_variable finished_;
  std::size_t started_ = 0, ended_ = 0;
  bool stopping_ = false;
  std::deque<Outcome> outcomes_;
  std::vector<std::thread> threads_;
};

}  // namespace tunesmith
