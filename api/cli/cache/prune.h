#pragma once
// tunesmith cache prune: removes useless entries from the user's cache.

#include <cstdint>
#include <optional>

#include "tunesmith/engine.h"

namespace tunesmith::cli {

struct PruneSettings {
  std::optional<int> older_than_days;     ///< also remove binaries stored longer ago
  std::optional<std::int64_t> max_bytes;  ///< of the file: remove the oldest binaries until it is no larger
  bool dry_run = false;
  bool json = false;
};

/// Removes entries that this version can no longer use (CurrentVersion) or that the settings name, prints the removed and
/// kept ones, and returns the exit code. Throws Error(cache_failed).
int prune_cache(const EngineOptions& options, const PruneSettings& settings);

}  // namespace tunesmith::cli
