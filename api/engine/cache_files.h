#pragma once
// Which cache files an engine looks at. Internal.

#include <string_view>

#include "cache/cache.h"
#include "tunesmith/engine.h"

namespace tunesmith {

/// What TUNESMITH_SYSTEM_CACHE and tunesmith_options.system_caches mean: files between ':', looked at before the one that
/// ships with the library; an empty text: none, not even that one.
void set_system_caches(EngineOptions& options, std::string_view text);

/// The files in the order in which they are looked at: the user's, the system's, the one that ships. Warnings go to the log.
CacheOptions cache_options(const EngineOptions& options);

}  // namespace tunesmith
