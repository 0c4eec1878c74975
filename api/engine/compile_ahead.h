#pragma once
// Compiles kernels before they are needed, for programs whose n_cols changes from call to call. Internal.

#include <sys/types.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "api/engine/parts.h"

namespace tunesmith {

/// When problems that differ in n_cols have compiled kernels for several buckets, compiles the kernels of the buckets
/// between and next to them into the cache, on threads of its own. Thread-safe.
class CompileAhead {
 public:
  explicit CompileAhead(Engine::Parts& parts);
  /// Starts no further compilation and waits for the running ones, at most a second or two.
  ~CompileAhead();
  CompileAhead(const CompileAhead&) = delete;
  CompileAhead& operator=(const CompileAhead&) = delete;

  /// Call after a caller had to wait for the kernel of this problem's bucket. Returns at once. Does nothing without a GPU.
  void compiled(const ParsedProblem& problem);

  /// Waits until nothing is left to compile. For tests.
  void wait() const;

 private:
  /// Problems that differ in n_cols, and so in the bucket.
  struct Family {
    std::set<std::int64_t> capacities;  ///< callers waited for their kernels
    std::set<std::int64_t> scheduled;
  };

  /// Returns the number of buckets that were added.
  std::size_t schedule(const ParsedProblem& problem, Family& family);
  void start_threads();
  void work();
  void compile(const ParsedProblem& problem) const noexcept;

  Engine::Parts& parts_;
  const pid_t process_;
  mutable std::mutex mutex_;
  mutable std::condition_variable idle_;
  std::map<std::string, Family> families_;  // by operation and capacity_class()
  std::deque<ParsedProblemPtr> waiting_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // they end when nothing is waiting
  std::size_t running_ = 0;
};

}  // namespace tunesmith
