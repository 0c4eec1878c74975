#pragma once
// The remote cache of one process.

#include <atomic>
#include <memory>

#include "fleet/credentials.h"
#include "fleet/remote.h"
#include "fleet/remote_url.h"

namespace tunesmith::fleet {

class RemoteCache final : public RemoteStore {
 public:
  RemoteCache(RemoteUrl url, Credentials credentials, RemoteOptions options);
  /// Completes pending writes, for at most half a second.
  ~RemoteCache() override;
  RemoteCache(const RemoteCache&) = delete;
  RemoteCache& operator=(const RemoteCache&) = delete;

  std::vector<SharedTuning> find_tunings(const TuningKey& key) override;
  std::set<std::int64_t> find_n_cols(const TuningKey& key) override;
  std::optional<BinaryRecord> find_binary(const std::string& fingerprint) override;
  void publish(SharedTuning tuning) override;
  void publish(const BinaryRecord& binary) override;
  void on_adopted(std::function<void(const SharedTuning&)> adopt) override;
  Cache* pinned() override;
  bool accepts(const BinaryRecord& binary) override;
  LeaseAnswer lease(const TuningKey& key, double limit_s) override;

  /// Waits until all writes are done, for tests and tools.
  bool flush(std::chrono::milliseconds limit);

 private:
  // Threads and connections do not survive fork(): a child makes its own and leaves its parent's alone.
  struct State;
  State& state();

  const RemoteUrl url_;
  const Credentials credentials_;
  const RemoteOptions options_;
  std::atomic<State*> state_;
};

}  // namespace tunesmith::fleet
