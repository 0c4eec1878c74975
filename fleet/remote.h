#pragma once
// Opens the remote cache of an engine.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "cache/remote_store.h"

namespace tunesmith::fleet {

struct RemoteOptions {
  std::string url;                   ///< see fleet/remote_url.h
  std::filesystem::path cache_file;  ///< next to it are the counters of this host, and copies of generations; may be empty
  /// Called at most once in a process, from any thread: why the remote cache does not work. May be empty.
  std::function<void(const std::string&)> warn;
};

/// Reports whether this build has the remote cache.
bool is_built() noexcept;

/// Opens the remote cache; connects on the first lookup. If a key file cannot be read, or this build has no remote cache,
/// warns and returns null. Throws Error(invalid_argument) for a malformed URL.
std::shared_ptr<RemoteStore> open_remote(const RemoteOptions& options);

/// The files next to a cache file.
std::filesystem::path counters_file(const std::filesystem::path& cache_file);
std::filesystem::path generation_file(const std::filesystem::path& cache_file, const std::string& name_space,
                                      const std::string& generation);

}  // namespace tunesmith::fleet
