// The cache files of an engine.

#include "api/engine/cache_files.h"

#include "api/engine/path_list.h"
#include "fleet/remote.h"

namespace tunesmith {

void set_system_caches(EngineOptions& options, std::string_view text) {
  options.system_caches = split_paths(text);
  if (text.empty()) options.shipped_cache.clear();
}

CacheOptions cache_options(const EngineOptions& options) {
  CacheOptions cache;
  cache.file = options.cache_file;
  cache.system_files = options.system_caches;
  if (!options.shipped_cache.empty()) cache.system_files.push_back(options.shipped_cache);
  if (options.log) cache.warn = [log = options.log](const std::string& text) { log(EngineOptions::Level::warning, text); };
  if (!options.remote.empty()) cache.remote = fleet::open_remote({options.remote, options.cache_file, cache.warn});
  return cache;
}

}  // namespace tunesmith
