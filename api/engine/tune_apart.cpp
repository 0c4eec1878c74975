#include "api/engine/tune_apart.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "api/engine/child_process.h"
#include "api/engine/tuning_report.h"
#include "tuner/tune.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

std::string joined(const std::vector<fs::path>& paths) {
  std::string text;
  for (const fs::path& path : paths) text += (text.empty() ? "" : ":") + path.string();
  return text;
}

/// The engine's options as environment variables of the command line.
std::vector<std::pair<std::string, std::string>> environment_of(const EngineOptions& options) {
  std::vector<fs::path> read_only = options.system_caches;
  if (!options.shipped_cache.empty()) read_only.push_back(options.shipped_cache);
  return {{"TUNESMITH_CACHE", options.cache_file.string()},
          {"TUNESMITH_SYSTEM_CACHE", joined(read_only)},
          {"TUNESMITH_MODE", "tune"},
          {"TUNESMITH_LOG", ""},
          {"TUNESMITH_DUMP_DIR", options.dump_folder.string()},
          {"TUNESMITH_TEMPLATES", options.templates_folder.string()},
          {"TUNESMITH_CUDA", joined(options.cuda_folders)},
          {"TUNESMITH_REMOTE", options.remote},
          {"TUNESMITH_PROBLEM_LOG", ""}};
}

ErrorCode parse_code(std::string_view text) {
  constexpr int last_code = static_cast<int>(ErrorCode::cache_failed);
  for (int code = 0; code <= last_code; ++code)
    if (text == name(static_cast<ErrorCode>(code))) return static_cast<ErrorCode>(code);
  return ErrorCode::device_failed;
}

/// Reads the last line of a tuning process. Throws the error that it reports, or Error(device_failed) for another text.
Tuned parse_answer(const std::string& out) {
  std::string_view text = out;
  while (text.ends_with('\n')) text.remove_suffix(1);
  text.remove_prefix(text.rfind('\n') + 1);  // npos + 1 is 0
  const Fields answer = parse_fields(text, "answer of the tuning process");
  if (answer.contains("error")) throw Error(parse_code(answer.string("error")), answer.string("message"));
  return {{parse_fields(answer.string("config"), "tuned config")},
          answer.real("wall_s"),
          answer.real("compile_ms"),
          answer.contains("disturbed") ? answer.string("disturbed") : ""};
}

constexpr const char* progress_mark = "progress ";

/// Passes on a line of progress_text(); ignores other lines, which libraries print.
void read_progress(const std::string& line, TuningReport& report) {
  if (report.is_cancelled() || !line.starts_with(progress_mark)) return;
  std::istringstream text(line.substr(std::strlen(progress_mark)));
  int done = 0, total = 0;
  std::string what;
  if (!(text >> done >> total >> std::ws) || !std::getline(text, what)) return;
  try {
    report.step(done, total, what);
  } catch (...) {  // the callback's exception: the report keeps it, and the process is stopped
  }
}

}  // namespace

bool has_user_source(const ParsedProblem& problem) {
  return std::ranges::any_of(problem.op().cached_fields(), [&](const FieldInfo& field) {
    if (field.kind != FieldKind::text) return false;
    const Value* const value = problem.problem().fields.find(field.name);
    return value != nullptr && !text(*value).empty();
  });
}

Tuned tune_apart(const Engine::Parts& parts, const ParsedProblem& problem, TuningReport& report) {
  const EngineOptions& options = parts.options;
  if (options.tuner_program.empty())
    throw Error(ErrorCode::not_found, "user functions are tuned in a process of their own, because they may fault or never ",
                "end, and the program tunesmith was not found; set EngineOptions::tuner_program or TUNESMITH_TUNER");
  ChildCommand command;
  command.program = options.tuner_program;
  command.arguments = {"tune", std::string(problem.op().name()), "--here", "--brief"};
  for (const auto& [field, value] : problem.problem().fields)
    command.arguments.insert(command.arguments.end(), {"--option", field + "=" + text(value)});
  command.arguments.insert(command.arguments.end(),
                           {"--device", "cuda:" + std::to_string(parts.device->info().ordinal), "--effort",
                            std::string(name(options.effort)), "--budget", text(Value(options.tune_budget_s)) + "s"});
  command.environment = environment_of(options);
  command.quiet = true;
  const double limit_s = tuning_limit_s(options.tune_budget_s, parts.tuner_start_s);
  command.limit = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * limit_s));
  command.line = [&](const std::string& line) { read_progress(line, report); };
  command.stop = [&] { return report.is_cancelled(); };

  const ChildExit child = run_child(command);
  if (report.is_cancelled()) report.rethrow();
  if (child.hung)
    throw Error(ErrorCode::device_failed, "a candidate never ended: the tuning process was killed after ", limit_s, " s");
  if (child.signal != 0)
    throw Error(ErrorCode::device_failed, "a candidate crashed: the tuning process ended with signal ",
                strsignal(child.signal));
  if (child.out.empty())
    throw Error(ErrorCode::device_failed, "the tuning process ended without an answer, with exit code ", child.code);
  return parse_answer(child.out);
}

std::string progress_text(int done, int total, const std::string& what) {
  return progress_mark + std::to_string(done) + " " + std::to_string(total) + " " + what;
}

std::string answer_text(const Tuned& tuned) {
  Fields fields{{"config", tuned.config.text()}, {"wall_s", tuned.wall_s}, {"compile_ms", tuned.compile_ms}};
  if (!tuned.disturbance.empty()) fields.set("disturbed", tuned.disturbance);  // a text without characters is no value
  return fields.text();
}

std::string answer_text(const Error& error) {
  return Fields{{"error", std::string(name(error.code()))}, {"message", std::string(error.what())}}.text();
}

}  // namespace tunesmith
