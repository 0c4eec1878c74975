#pragma once
// The implementation of Cache: the layers of this process, used by one thread at a time.

#include <unistd.h>

#include <atomic>

#include "cache/layers.h"
#include "cache/remote_store.h"
#include "cache/thread_claims.h"

namespace tunesmith {

struct Cache::Impl {
  explicit Impl(CacheOptions given);
  ~Impl();

  /// Runs `work(layers)` under the lock. Delivers warnings after releasing it, so that a callback may call the cache.
  template <typename Work>
  auto enter(const Work& work);

  /// Returns the cache of a pinned generation; null if there is none.
  Cache* pinned() const;
  std::optional<TuningRecord> local_record(const TuningKey& key);
  std::optional<BinaryRecord> local_binary(const std::string& fingerprint);
  /// Stores on this host only.
  void keep(const SharedTuning& tuning);
  /// `source` is null if it is not known.
  void keep(const BinaryRecord& binary, const std::string* source);
  ThreadClaims& thread_claims() { return state().thread_claims; }

  const CacheOptions options;

 private:
  // A connection must not be used after fork(). The child opens its own and never closes its parent's: closing it could roll
  // back a transaction of the parent, and its mutex may be locked by a thread that does not exist in the child.
  struct State {
    State(const CacheOptions& options, bool in_doubt) : layers(options, in_doubt) {}
    const pid_t process = getpid();
    std::atomic<int> inside{0};  // threads that are using SQLite
    Layers layers;
    ThreadClaims thread_claims;
  };

  State& state();
  void deliver(const std::vector<std::string>& warnings) const;

  std::atomic<State*> state_;
};

template <typename Work>
auto Cache::Impl::enter(const Work& work) {
  State& current = state();
  // Delivers warnings even if `work` throws.
  struct Visit {
    Impl& impl;
    State& state;
    std::unique_lock<std::mutex> lock{state.layers.mutex};
    Visit(Impl& i, State& s) : impl(i), state(s) { ++state.inside; }
    ~Visit() {
      const auto warnings = state.layers.warnings.take();
      --state.inside;
      lock.unlock();
      impl.deliver(warnings);
    }
  } visit(*this, current);
  return work(current.layers);
}

}  // namespace tunesmith
