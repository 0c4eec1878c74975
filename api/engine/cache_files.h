#pragma once
// The cache files of an engine. Internal.

#include <string_view>

#include "cache/cache.h"
#include "tunesmith/engine.h"

namespace tunesmith {

/// Sets system_caches from a list of files separated by ':' (TUNESMITH_SYSTEM_CACHE, tunesmith_options.system_caches). An
/// empty text disables all system caches, including the one shipped with the library.
void set_system_caches(EngineOptions& options, std::string_view text);

/// Returns the cache files in search order: the user's, the system's, the shipped one; and the opened remote cache, if one
/// is set. Warnings go to the log. Throws Error(invalid_argument) for a malformed URL.
CacheOptions cache_options(const EngineOptions& options);

}  // namespace tunesmith
