// Finds files installed with the library: the shipped cache and the command-line tool.

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <system_error>

#include "api/engine/path_list.h"
#include "tunesmith/engine.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

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

/// Looks for a file in folders relative to own_folder(), separated by ':'; empty if it is in none.
fs::path find_near(std::string_view places, const char* name) {
  const fs::path folder = own_folder();
  if (folder.empty()) return {};
  std::error_code ignored;
  for (const fs::path& place : split_paths(places)) {
    fs::path file = (folder / place / name).lexically_normal();
    if (fs::is_regular_file(file, ignored)) return file;
  }
  return {};
}

}  // namespace

fs::path EngineOptions::default_shipped_cache() { return find_near(TUNESMITH_SHIPPED_PLACES, "shipped.db"); }

fs::path EngineOptions::default_tuner_program() {
  const fs::path program = find_near(TUNESMITH_PROGRAM_PLACES, "tunesmith");
  return program.empty() || access(program.c_str(), X_OK) == 0 ? program : fs::path();
}

}  // namespace tunesmith
