#include "api/c/options.h"

#include <cstddef>

#include "api/c/struct.h"
#include "api/engine/cache_files.h"
#include "api/engine/path_list.h"

namespace tunesmith {

EngineOptions options_from_c(const tunesmith_options* options) {
  EngineOptions result = EngineOptions::from_environment();
  if (options == nullptr) return result;
  constexpr std::size_t first_version = offsetof(tunesmith_options, log_context) + sizeof(void*);
  const tunesmith_options given = known_fields(*options, first_version, "options", "tunesmith_options");
  if (given.device != nullptr) result.device = given.device;
  if (given.mode != nullptr) result.mode = parse_mode(given.mode);
  if (given.effort != nullptr) result.effort = parse_effort(given.effort);
  if (given.tune_budget_s != 0) result.tune_budget_s = given.tune_budget_s;
  if (given.cache_file != nullptr) result.cache_file = given.cache_file;
  if (given.system_caches != nullptr) set_system_caches(result, given.system_caches);
  if (given.cuda_folders != nullptr) {
    const auto folders = split_paths(given.cuda_folders);
    result.cuda_folders.insert(result.cuda_folders.begin(), folders.begin(), folders.end());
  }
  if (given.templates_folder != nullptr) result.templates_folder = given.templates_folder;
  if (given.dump_folder != nullptr) result.dump_folder = given.dump_folder;
  if (given.log != nullptr)
    result.log = [log = given.log, context = given.log_context](EngineOptions::Level level, const std::string& line) {
      log(level == EngineOptions::Level::info ? TUNESMITH_LOG_INFO : TUNESMITH_LOG_WARNING, line.c_str(), context);
    };
  return result;
}

}  // namespace tunesmith
