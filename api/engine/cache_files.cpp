// The cache files of an engine, and the search for the one shipped with the library.

#include "api/engine/cache_files.h"

#include <dlfcn.h>
#include <link.h>

#include <system_error>

#include "api/engine/path_list.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

constexpr const char* shipped_name = "shipped.db";

/// Returns the folder of the library or program that contains this code, with symbolic links resolved; empty if unknown.
fs::path own_folder() {
  static const char inside = 0;  // an address of this module
  Dl_info info{};
  link_map* module = nullptr;
  if (dladdr1(&inside, &info, reinterpret_cast<void**>(&module), RTLD_DL_LINKMAP) == 0 || module == nullptr) return {};
  // The main program has an empty name.
  const bool is_program = module->l_name == nullptr || *module->l_name == 0;
  std::error_code error;
  const fs::path file = fs::canonical(is_program ? fs::path("/proc/self/exe") : fs::path(module->l_name), error);
  return error ? fs::path() : file.parent_path();
}

}  // namespace

fs::path EngineOptions::default_shipped_cache() {
  const fs::path folder = own_folder();
  if (folder.empty()) return {};
  std::error_code ignored;
  for (const fs::path& place : split_paths(TUNESMITH_SHIPPED_PLACES)) {
    fs::path file = (folder / place / shipped_name).lexically_normal();
    if (fs::is_regular_file(file, ignored)) return file;
  }
  return {};
}

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
  return cache;
}

}  // namespace tunesmith
