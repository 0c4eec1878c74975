#pragma once
// The generation that a URL pins: all tunings of a deployment, and the digests of its binaries.

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>

#include "fleet/protocol/read_connection.h"
#include "fleet/shared_values.h"

namespace tunesmith::fleet {

/// Thread-safe.
class PinnedGeneration {
 public:
  struct Contents {
    std::unique_ptr<Cache> tunings;               ///< in memory
    std::map<std::string, std::string> binaries;  ///< SHA-256 of the image by fingerprint
  };

  /// `copy`: the sealed generation is kept there, so that this host needs the server only once; may be empty. `warn`
  /// receives why the generation cannot be used.
  PinnedGeneration(std::string name, Milliseconds limit, std::filesystem::path copy, const SharedValues& values,
                   std::function<void(const std::string&)> warn);

  /// Returns the generation, or null if it cannot be had. Reads it on the first call: from the copy, else from the server.
  /// After a failure, tries again at most once a second.
  const Contents* get(ReadConnection& connection);

 private:
  bool take(std::string_view bytes);
  void load(ReadConnection& connection);

  const std::string name_;
  const Milliseconds limit_;
  const std::filesystem::path copy_;
  const SharedValues& values_;
  const std::function<void(const std::string&)> warn_;

  std::mutex mutex_;
  Deadline next_try_{};
  std::unique_ptr<const Contents> contents_;
  std::atomic<const Contents*> loaded_{nullptr};
};

}  // namespace tunesmith::fleet
