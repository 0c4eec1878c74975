#include "api/c/options.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include "api/engine/cache_files.h"
#include "api/engine/path_list.h"
#include "tunesmith/error.h"
#include "tunesmith/version.h"

namespace tunesmith {
namespace {

/// Returns the fields that the caller's header has; the others are zero. A newer header may have more fields, which must be
/// zero. Throws Error(invalid_argument).
tunesmith_options known_fields(const tunesmith_options& given) {
  constexpr std::size_t first_version = offsetof(tunesmith_options, log_context) + sizeof(void*);
  const std::size_t size = given.struct_size;
  if (size < first_version)
    throw Error(ErrorCode::invalid_argument, "options.struct_size is ", size, "; expected sizeof(tunesmith_options), ",
                sizeof given);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&given);
  // A larger size than any header will have is an uninitialized struct: do not read beyond it.
  constexpr std::size_t most = 4096;
  if (size > most ||
      std::any_of(bytes + std::min(size, sizeof given), bytes + size, [](unsigned char byte) { return byte != 0; }))
    throw Error(ErrorCode::invalid_argument, "options.struct_size is ", size, ", but this library (", TUNESMITH_VERSION,
                ") knows only the first ", sizeof given, " bytes and the others are not zero");
  tunesmith_options known{};
  std::memcpy(&known, &given, std::min(size, sizeof known));
  return known;
}

}  // namespace

EngineOptions options_from_c(const tunesmith_options* options) {
  EngineOptions result = EngineOptions::from_environment();
  if (options == nullptr) return result;
  const tunesmith_options given = known_fields(*options);
  if (given.device != nullptr) result.device = given.device;
  if (given.mode != nullptr) result.mode = parse_mode(given.mode);
  if (given.effort != nullptr) result.effort = parse_effort(given.effort);
  if (given.tune_budget_s != 0) result.tune_budget_s = given.tune_budget_s;
  if (given.tune_share != 0) result.tune_share = given.tune_share;
  if (given.tune_allowance_s != 0) result.tune_allowance_s = given.tune_allowance_s;
  if (given.plan_capacity != 0) result.plan_capacity = given.plan_capacity;
  if (given.specialize != nullptr) result.specialize = parse_specialize(given.specialize);
  if (given.exact_after != 0)
    result.exact_after =
        static_cast<std::uint32_t>(std::min<std::size_t>(given.exact_after, std::numeric_limits<std::uint32_t>::max()));
  if (given.compile_ahead_jobs != 0)
    result.compile_ahead_jobs = static_cast<std::uint32_t>(std::max(given.compile_ahead_jobs, 0));
  if (given.cache_file != nullptr) result.cache_file = given.cache_file;
  if (given.system_caches != nullptr) set_system_caches(result, given.system_caches);
  if (given.cuda_folders != nullptr) {
    const auto folders = split_paths(given.cuda_folders);
    result.cuda_folders.insert(result.cuda_folders.begin(), folders.begin(), folders.end());
  }
  if (given.templates_folder != nullptr) result.templates_folder = given.templates_folder;
  if (given.dump_folder != nullptr) result.dump_folder = given.dump_folder;
  if (given.remote != nullptr) result.remote = given.remote;
  if (given.progress != nullptr)
    result.progress = [progress = given.progress, context = given.progress_context](const TuningProgress& step) {
      const std::string problem = step.problem.short_text();
      if (progress(problem.c_str(), step.done, step.total, step.finished ? nullptr : step.what.c_str(), context) != 0)
        throw Error(ErrorCode::cancelled, "tuning ", problem, " was stopped by the callback for progress");
    };
  if (given.log != nullptr)
    result.log = [log = given.log, context = given.log_context](EngineOptions::Level level, const std::string& line) {
      log(level == EngineOptions::Level::info ? TUNESMITH_LOG_INFO : TUNESMITH_LOG_WARNING, line.c_str(), context);
    };
  return result;
}

}  // namespace tunesmith
