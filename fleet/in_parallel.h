#pragma once
// Work on many values at the same time.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <future>
#include <thread>
#include <vector>

namespace tunesmith::fleet {

/// Calls work(0), work(1), ..., work(count - 1) on this thread and up to seven others, in any order. Rethrows the error of
/// a call after all threads have ended.
template <typename Work>
void in_parallel(std::size_t count, const Work& work) {
  constexpr std::size_t max_threads = 8, worth_a_thread = 16;  // a thread costs as much as verifying one value
  const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1U);
  const std::size_t threads = std::min({max_threads, cores, count / worth_a_thread});
  std::atomic<std::size_t> next{0};
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  // A future's destructor waits for its thread.
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < threads; ++i) others.push_back(std::async(std::launch::async, take));
  take();
  for (std::future<void>& other : others) other.get();
}

}  // namespace tunesmith::fleet
