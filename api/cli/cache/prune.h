#pragma once
// tunesmith cache prune: what of the user's cache can go.

#include <cstdint>
#include <optional>

#include "tunesmith/engine.h"

namespace tunesmith::cli {

struct PruneSettings {
  std::optional<int> older_than_days;     ///< binaries stored longer ago go too, used or not: use is not recorded
  std::optional<std::int64_t> max_bytes;  ///< of the file: the oldest binaries go until it is no larger
  bool dry_run = false;
  bool json = false;
};

/// Removes what this version can no longer use (CurrentVersion) and what the settings name, prints what went and what stays,
/// and returns the exit code. Throws Error(cache_failed).
int prune_cache(const EngineOptions& options, const PruneSettings& settings);

}  // namespace tunesmith::cli
