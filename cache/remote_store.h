#pragma once
// The interface of a store that several hosts share. fleet/ implements it over the Redis protocol.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cache/cache.h"

namespace tunesmith {

/// A tuning record with its trials.
struct SharedTuning {
  TuningRecord record;
  std::vector<Trial> trials;
};

/// The right of this host to tune a key; ends with the object.
class RemoteLease {
 public:
  RemoteLease() = default;
  RemoteLease(const RemoteLease&) = delete;
  RemoteLease& operator=(const RemoteLease&) = delete;
  virtual ~RemoteLease() = default;
};

/// Thread-safe. No call throws or waits beyond a short time limit: a value that does not arrive in time counts as missing.
class RemoteStore {
 public:
  virtual ~RemoteStore() = default;

  /// Finds the record of the key; if it is missing, some of the nearest ones: keys that differ only in n_cols and
  /// rows_bucket.
  virtual std::vector<SharedTuning> find_tunings(const TuningKey& key) = 0;
  /// Finds the n_cols of records whose keys differ only in n_cols and rows_bucket.
  virtual std::set<std::int64_t> find_n_cols(const TuningKey& key) = 0;
  virtual std::optional<BinaryRecord> find_binary(const std::string& fingerprint) = 0;

  /// Writes in the background. The first record of a key is kept; `adopt` receives it if another host was faster.
  virtual void publish(SharedTuning tuning) = 0;
  virtual void publish(const BinaryRecord& binary) = 0;
  /// Sets the receiver of records that another host published first. It is called on another thread, and not after
  /// this function was called again.
  virtual void on_adopted(std::function<void(const SharedTuning&)> adopt) = 0;

  /// Returns the cache that answers all lookups of records, if a generation is pinned and could be loaded; else null.
  virtual Cache* pinned() = 0;
  /// Reports whether a binary of this host may be loaded: a pinned generation lists the digests of its binaries.
  virtual bool accepts(const BinaryRecord& binary) = 0;

  struct LeaseAnswer {
    bool is_elsewhere = false;           ///< another host tunes the key
    std::unique_ptr<RemoteLease> lease;  ///< also null if the server does not answer
  };
  /// Asks for the right to tune a key for at most `limit_s` seconds.
  virtual LeaseAnswer lease(const TuningKey& key, double limit_s) = 0;
};

}  // namespace tunesmith
