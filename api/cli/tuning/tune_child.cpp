#include "api/cli/tuning/tune_child.h"

#include <array>
#include <cstring>
#include <optional>

#include "api/cli/arguments/flags.h"
#include "api/cli/report/progress.h"
#include "api/cli/tuning/interrupt.h"
#include "api/engine/child_process.h"
#include "api/engine/parts.h"
#include "templates/op.h"
#include "tuner/recorded.h"
#include "tuner/tune.h"

namespace tunesmith::cli {
namespace {

constexpr int last_code = static_cast<int>(ErrorCode::cache_failed);

ErrorCode parse_code(const std::string& text) {
  for (int code = 0; code <= last_code; ++code)
    if (text == name(static_cast<ErrorCode>(code))) return static_cast<ErrorCode>(code);
  return ErrorCode::device_failed;
}

Json trials_of(const TuneResult& result) {
  Json trials = Json::array();
  for (const Trial& trial : result.trials) {
    Json entry{{"config", trial.config}, {"status", trial.status}};
    if (trial.samples > 0)
      entry.update({{"median_us", trial.median_us}, {"mad_us", trial.mad_us}, {"samples", trial.samples}});
    if (!trial.reason.empty()) entry["reason"] = trial.reason;
    trials.push_back(std::move(entry));
  }
  return trials;
}

std::string_view last_line(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  const std::size_t end = text.rfind('\n');
  return end == std::string_view::npos ? text : text.substr(end + 1);
}

/// Opens a GPU; throws Error that says why this machine cannot tune.
std::shared_ptr<Device> open_gpu(const std::string& device) {
  constexpr const char* instead =
      "; without one, compile ahead of time (tunesmith prewarm --compile-only) and use records from another machine";
  if (device == "host")
    throw Error(ErrorCode::unsupported, "tuning needs a GPU; times of the host executor mean nothing", instead);
  try {
    return open_device(device == "auto" ? "cuda" : device);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::no_device) throw;
    throw Error(error.code(), "tuning needs a GPU: ", error.what(), instead);
  }
}

}  // namespace

Json tune_here(const TuneRequest& request, const EngineOptions& options) {
  const Op& op = find_op(request.problem.op);
  const Problem problem = op.normalize(request.problem);
  const TemplateSet templates = open_templates(options);
  const std::shared_ptr<Device> device = open_gpu(request.device);
  const std::shared_ptr<Compiler> compiler = open_compiler(device->info().kind, options);
  const std::shared_ptr<Cache> cache = open_cache(options);

  TuneOptions settings;
  settings.effort = request.effort;
  settings.budget_s = request.budget_s;
  settings.jobs = request.jobs;
  settings.force = request.force;
  settings.cancel = &interrupted();
  settings.before_device = request.before_device;
  settings.compiled = request.compiled;
  TuneResult result;
  {
    std::optional<Progress> progress;  // shows nothing while another process tunes on the GPU
    settings.progress = [&](int done, int total, const std::string& what) {
      if (!progress) progress.emplace("tuning " + problem.op);
      progress->update(done, total, what);
      if (request.observer) request.observer(done, total, what);
    };
    result = tune(*op.parse(problem), {*device, *compiler, *cache, templates}, settings);
  }
  return tuning_facts(problem, device->info(), result, options.cache_file);
}

Json tuning_facts(const Problem& problem, const DeviceInfo& device, const TuneResult& result,
                  const std::filesystem::path& cache_file) {
  const Op& op = find_op(problem.op);
  const TuningRecord& record = result.record;
  const std::string overcounted = op.parse(problem)->cost().overcounted;
  const bool has_rate = overcounted.empty() && record.bytes > 0 && record.median_us > 0;
  return {{"op", problem.op},
          {"problem", to_json(problem.fields)},
          {"device", device.name},
          {"arch", name(device.arch)},
          {"config", record.config},
          {"median_us", record.median_us},
          {"mad_us", record.mad_us},
          {"default_config", op.parse(problem)->default_config(device).text()},
          {"default_median_us", record.default_median_us},
          {"speedup_over_default", record.median_us > 0 ? record.default_median_us / record.median_us : 0},
          {"gb_per_s", has_rate ? Json(record.bytes / record.median_us * 1e-3) : Json()},
          {"overcounted", overcounted},
          {"effort", record.effort},
          {"measured", result.timed > 0},
          {"candidates", result.candidates},
          {"compiled", result.compiled},
          {"winner_compiled", result.winner_compiled},
          {"winner_compile_ms", result.winner_compile_ms},
          {"verified", result.verified},
          {"timed", result.timed},
          {"disturbed", disturbance_text(record)},
          {"wall_s", result.wall_s},
          {"compile_s", result.compile_s},
          {"cache", cache_file.string()},
          {"trials", trials_of(result)}};
}

Json tune_in_child(const TuneRequest& request) {
  std::vector<std::string> arguments{"tune", request.problem.op, "--here", "--json"};
  for (const auto& [field, value] : request.problem.fields)
    arguments.insert(arguments.end(), {"--option", field + "=" + text(value)});
  arguments.insert(arguments.end(), {"--device", request.device, "--effort", std::string(name(request.effort)), "--budget",
                                     text(Value(request.budget_s)) + "s", "--jobs", std::to_string(request.jobs)});
  if (!request.cache_file.empty()) arguments.insert(arguments.end(), {"--cache", request.cache_file.string()});
  if (request.force) arguments.emplace_back("--force");
  if (request.turn != nullptr) arguments.emplace_back("--turn");

  ChildCommand command{.program = "/proc/self/exe", .arguments = std::move(arguments)};
  const auto is_unwanted = [&] { return interrupted() || (request.stop && request.stop()); };
  command.stop = is_unwanted;
  if (request.turn != nullptr) {
    command.input = request.turn->child_end();
    command.is_waiting = [&] { return !request.turn->is_given(); };
    command.line = [&](const std::string& line) {
      if (line == compiled_line && request.compiled) request.compiled();
    };
  }
  constexpr double start_s = 30;  // more than an engine allows, because no program waits
  const double limit_s = tuning_limit_s(request.budget_s, start_s);
  command.limit = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * limit_s));
  const ChildExit child = run_child(command);
  if (is_unwanted()) throw Error(ErrorCode::cancelled, "interrupted; the cache holds what was finished");
  if (child.hung)
    throw Error(ErrorCode::device_failed, "a candidate never ended while tuning ", request.problem.short_text(),
                ": the tuning process was killed after ", limit_s, " s");
  const Json answer = Json::parse(last_line(child.out), nullptr, false);
  if (child.signal != 0 || !answer.is_object())
    throw Error(
        ErrorCode::device_failed, "a candidate crashed the device while tuning ", request.problem.short_text(),
        ": the tuning process ended with ",
        child.signal != 0 ? "signal " + std::string(strsignal(child.signal)) : "exit code " + std::to_string(child.code));
  if (!answer.contains("error")) return answer;
  const Json& error = answer["error"];
  const ErrorCode code = parse_code(error.value("code", ""));
  const std::string crashed = code == ErrorCode::device_failed ? "a candidate crashed the device: " : "";
  throw Error(code, crashed, error.value("message", ""))
      .with_compilation(error.value("log", ""), error.value("options", ""), error.value("source", ""));
}

Json to_json(const Error& error) {
  return {{"error",
           {{"code", name(error.code())},
            {"message", error.what()},
            {"log", error.log()},
            {"options", error.options()},
            {"source", error.source_path()}}}};
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }
std::string dump_pretty(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace); }

Json to_json(const Fields& fields) {
  Json object = Json::object();
  for (const auto& [field, value] : fields) std::visit([&, key = field](const auto& plain) { object[key] = plain; }, value);
  return object;
}

}  // namespace tunesmith::cli
