// tunesmith doctor: shows the GPUs, libraries and caches that Tunesmith finds, and how to add missing ones.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

#include "api/cli/arguments/errors.h"
#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/remote_flag.h"
#include "api/cli/cache/current_version.h"
#include "api/cli/cache/views.h"
#include "api/cli/commands/commands.h"
#include "api/cli/report/table.h"
#include "api/engine/parts.h"
#include "fleet/check.h"
#include "jit/cuda/cublas_lt_library.h"
#include "jit/cuda/driver.h"
#include "jit/cuda/nvrtc_compiler.h"
#include "tunesmith/version.h"

namespace tunesmith::cli {
namespace {

using Lines = std::vector<std::pair<std::string, std::string>>;

/// The result of one search: `facts` for --json, `lines` for the table.
struct Finding {
  Json facts;
  Lines lines;
};

std::string cuda_version(int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); }

Finding look_for_gpus() {
  Finding finding{{{"found", false}, {"gpus", Json::array()}}, {}};
  Json tried = Json::array();
  for (const std::string& place : driver_candidates()) tried.push_back(place);
  finding.facts["tried"] = tried;
  int count = 0;
  try {
    const std::shared_ptr<const Driver> driver = Driver::open();
    finding.facts["found"] = true;
    finding.facts["path"] = driver->path();
    finding.facts["cuda_version"] = cuda_version(driver->api_version());
    finding.lines.emplace_back("driver", driver->path() + ", CUDA " + cuda_version(driver->api_version()));
    count = driver->initialize();
  } catch (const Error& error) {
    finding.facts["error"] = error.what();
    if (!finding.facts["found"]) finding.lines.emplace_back("driver", std::string("not found: ") + error.what());
    finding.lines.emplace_back(
        "GPU", "none; --device host runs kernels on the CPU, prewarm --compile-only compiles for GPUs elsewhere");
    return finding;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) try {
      const std::shared_ptr<Device> device = open_device("cuda:" + std::to_string(ordinal));
      const DeviceInfo& info = device->info();
      Json gpu{{"ordinal", ordinal},
               {"name", info.name},
               {"arch", name(info.arch)},
               {"sm_count", info.sm_count},
               {"memory_bytes", info.memory_bytes},
               {"l2_bytes", info.l2_bytes},
               {"memory_gb_per_s", info.memory_gb_per_s},
               {"smem_bytes_per_block", info.smem_bytes_per_block},
               {"smem_bytes_per_sm", info.smem_bytes_per_sm},
               {"mig", info.mig},
               {"device_class", info.device_class()},
               {"provenance", device->provenance()}};
      const DeviceConditions now = device->conditions();
      gpu["sm_clock_now_mhz"] = now.sm_clock_mhz > 0 ? Json(now.sm_clock_mhz) : Json();
      gpu["slowed_by"] = now.slowed_by;
      finding.lines.emplace_back("GPU cuda:" + std::to_string(ordinal),
                                 info.name + ", " + name(info.arch) + ", " + std::to_string(info.sm_count) +
                                     " multiprocessors, " + bytes_text(static_cast<double>(info.memory_bytes)) + ", L2 " +
                                     bytes_text(static_cast<double>(info.l2_bytes)) + ", shared memory " +
                                     bytes_text(static_cast<double>(info.smem_bytes_per_block)) + " per block" +
                                     (info.mig ? ", MIG " + info.partition : ""));
      for (const auto& [fact, value] : device->provenance()) finding.lines.emplace_back("  " + fact, value);
      if (now.sm_clock_mhz > 0) finding.lines.emplace_back("  sm_clock_now", std::to_string(now.sm_clock_mhz) + " MHz");
      if (!now.slowed_by.empty()) finding.lines.emplace_back("  slowed_by", join(now.slowed_by));
      finding.facts["gpus"].push_back(std::move(gpu));
    } catch (const Error& error) {
      finding.lines.emplace_back("GPU cuda:" + std::to_string(ordinal), error.what());
      finding.facts["gpus"].push_back({{"ordinal", ordinal}, {"error", error.what()}});
    }
  return finding;
}

Finding look_for_nvrtc(const EngineOptions& options) {
  Finding finding{{{"found", false}}, {}};
  const std::shared_ptr<Compiler> compiler = open_compiler(DeviceInfo::Kind::cuda, options);
  const auto* nvrtc = dynamic_cast<const NvrtcCompiler*>(compiler.get());  // only NVRTC is searched for
  if (nvrtc == nullptr) return finding;
  try {
    const NvrtcLocation location = nvrtc->location();
    finding.facts["searched"] = location.tried;
    const std::string version = nvrtc->version();
    std::string archs;
    Json list = Json::array();
    for (const Arch& arch : nvrtc->supported_archs()) {
      archs += (archs.empty() ? "" : " ") + name(arch);
      list.push_back(name(arch));
    }
    finding.facts.update({{"found", true},
                          {"version", version},
                          {"path", location.library.string()},
                          {"found_in", location.found_in},
                          {"identity", nvrtc->identity()},
                          {"archs", list}});
    finding.lines = {
        {"NVRTC", version + (location.found() ? ", " + location.library.string() + " (" + location.found_in + ")"
                                              : " (known to the loader)")},
        {"  identity", nvrtc->identity()},
        {"  compiles for", archs},
        {"  searched", join(location.tried)}};
  } catch (const Error& error) {
    finding.facts["error"] = error.what();
    finding.lines.emplace_back("NVRTC", std::string("not usable: ") + error.what());
  }
  return finding;
}

/// Optional: only linear + cross-entropy needs it.
Finding look_for_cublas_lt(const EngineOptions& options) {
  Finding finding{{{"found", false}}, {}};
  int newest_major = 13;
  try {
    newest_major = Driver::open()->api_version() / 1000;
  } catch (const Error&) {  // no driver: look for the library anyway
  }
  try {
    const CublasLtLibrary library(find_cublas_lt(cuda_folders(options), newest_major), newest_major);
    finding.facts = {{"found", true},
                     {"version", library.version()},
                     {"path", library.location().library.string()},
                     {"found_in", library.location().found_in}};
    finding.lines.emplace_back("cuBLASLt", library.version() + ", " + library.location().library.string() + " (" +
                                               library.location().found_in + ")");
  } catch (const Error& error) {
    finding.facts["error"] = error.what();
    finding.lines.emplace_back("cuBLASLt", std::string("not usable, only linear + cross-entropy needs it: ") + error.what());
  }
  return finding;
}

Finding look_for_host_compiler(const EngineOptions& options) {
  Finding finding{{{"found", false}}, {}};
  try {
    const std::string identity = open_compiler(DeviceInfo::Kind::host, options)->identity();
    finding.facts = {{"found", true}, {"identity", identity}};
    finding.lines.emplace_back("host compiler", identity);
  } catch (const Error& error) {
    finding.facts["error"] = error.what();
    finding.lines.emplace_back("host compiler", std::string("not found: ") + error.what());
  }
  return finding;
}

Finding look_at_cache(const EngineOptions& options) {
  const std::shared_ptr<Cache> cache = open_cache(options);
  Finding finding;
  std::vector<std::string> problems;
  try {
    problems = cache->verify();
  } catch (const Error& error) {
    problems = {error.what()};
  }
  const CacheInfo info = cache->info();
  finding.facts = to_json(info);
  finding.facts["healthy"] = problems.empty();
  finding.facts["problems"] = problems;
  finding.lines.emplace_back("SQLite", info.sqlite_version);
  std::string state = info.file.empty() ? "none: nothing persists" : info.file.string();
  if (!info.file.empty()) {
    state += ", " + bytes_text(static_cast<double>(info.file_bytes)) + ", " + std::to_string(info.records) + " records, " +
             std::to_string(info.binaries) + " binaries";
    state += info.writable ? ", writable" : ", not writable: " + info.why_not_writable;
    if (info.network_file_system) state += ", on a network file system";
  }
  finding.lines.emplace_back("cache", state);
  if (!info.why_not_private.empty()) finding.lines.emplace_back("  binaries not loaded", info.why_not_private);
  finding.lines.emplace_back("  health", problems.empty() ? "good" : problems.front());
  // The shipped cache has its own finding.
  for (const SystemFileInfo& file : info.system_files)
    if (file.file != options.shipped_cache) finding.lines.emplace_back("  system cache", system_file_text(file));
  return finding;
}

Finding look_at_shipped_records(const EngineOptions& options) {
  Finding finding{{{"file", options.shipped_cache.string()}, {"records", 0}, {"usable", 0}, {"ignored", ""}}, {}};
  if (options.shipped_cache.empty()) {
    const std::filesystem::path usual = EngineOptions::default_shipped_cache();
    finding.facts["ignored"] = usual.empty() ? "no such file" : "TUNESMITH_SYSTEM_CACHE is empty";
    finding.lines.emplace_back("shipped records", usual.empty() ? "not found next to this program"
                                                                : "switched off: TUNESMITH_SYSTEM_CACHE is empty");
    return finding;
  }
  EngineOptions shipped_only = options;
  shipped_only.cache_file.clear();
  shipped_only.system_caches.clear();
  const std::shared_ptr<Cache> cache = open_cache(shipped_only);
  CurrentVersion version(shipped_only);
  int usable = 0;
  std::map<std::string, int> devices;
  for (const TuningRecord& record : cache->list_records()) {
    if (version.use_of(record) != name(Origin::exact)) continue;
    ++usable;
    ++devices[record.key.device_class.substr(0, record.key.device_class.find(';'))];
  }
  const SystemFileInfo info = cache->info().system_files.front();
  finding.facts["records"] = info.records;
  finding.facts["usable"] = usable;
  finding.facts["devices"] = devices;
  finding.facts["ignored"] = info.ignored;
  std::string text = system_file_text(info);
  if (usable < info.records) text += "; " + std::to_string(info.records - usable) + " are not of these templates";
  for (const auto& [device, count] : devices) text += "; " + std::to_string(count) + " for " + device;
  finding.lines.emplace_back("shipped records", text);
  return finding;
}

Finding look_at_environment() {
  static constexpr std::string_view others[] = {"CUDA_HOME",       "CUDA_PATH",          "CUDA_VISIBLE_DEVICES",
                                                "LD_LIBRARY_PATH", "NVRTC_APPEND_FLAGS", "VIRTUAL_ENV",
                                                "XDG_CACHE_HOME"};
  Finding finding{Json::object(), {}};
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line(*entry);
    const std::string_view variable = line.substr(0, line.find('='));
    if (!variable.starts_with("TUNESMITH_") && std::ranges::find(others, variable) == std::end(others)) continue;
    const std::string value(line.substr(std::min(line.size(), variable.size() + 1)));
    finding.facts[std::string(variable)] = value;
    finding.lines.emplace_back("environment", std::string(variable) + "=" + value);
  }
  std::ranges::sort(finding.lines);
  return finding;
}

/// Checks the remote cache alone; unlike the report, fails if something is wrong.
int check_remote(const std::string& url, bool json) {
  constexpr std::array<const char*, 3> verdicts{"good", "warning", "failed"};
  std::string wrong;
  Json facts = Json::array();
  Lines lines;
  for (const fleet::Finding& finding : fleet::check_remote(url)) {
    const char* const verdict = verdicts.at(static_cast<std::size_t>(finding.verdict));
    if (finding.verdict == fleet::Finding::Verdict::failed && wrong.empty()) wrong = finding.text;
    facts.push_back({{"what", finding.what}, {"verdict", verdict}, {"text", finding.text}});
    const bool is_plain = finding.verdict == fleet::Finding::Verdict::good;
    lines.emplace_back(finding.what, (is_plain ? "" : std::string(verdict) + ": ") + finding.text);
  }
  std::fputs(json ? (dump_pretty(facts) + "\n").c_str() : listing(lines).c_str(), stdout);
  if (!wrong.empty()) throw Error(ErrorCode::io, "the remote cache does not work: ", wrong);
  return exit_done;
}

int doctor(const EngineFlags& flags, bool json) {
  EngineOptions options = flags.options();
  options.log = nullptr;  // the report contains the warnings
  const std::pair<const char*, Finding> findings[] = {{"driver", look_for_gpus()},
                                                      {"nvrtc", look_for_nvrtc(options)},
                                                      {"cublas_lt", look_for_cublas_lt(options)},
                                                      {"host_compiler", look_for_host_compiler(options)},
                                                      {"cache", look_at_cache(options)},
                                                      {"shipped", look_at_shipped_records(options)},
                                                      {"environment", look_at_environment()}};
  Json facts{{"version", TUNESMITH_VERSION}};
  Lines lines{{"tunesmith", TUNESMITH_VERSION}};
  for (const auto& [name, finding] : findings) {
    facts[name] = finding.facts;
    lines.insert(lines.end(), finding.lines.begin(), finding.lines.end());
  }
  std::fputs(json ? (dump_pretty(facts) + "\n").c_str() : listing(lines).c_str(), stdout);
  return exit_done;
}

}  // namespace

void add_doctor(CLI::App& app, Parse& parse) {
  CLI::App* command = app.add_subcommand("doctor", "show what is installed: driver, GPUs, NVRTC, host compiler, cache");
  auto flags = std::make_shared<EngineFlags>();
  auto json = std::make_shared<bool>(false);
  flags->add_cache(*command);
  auto remote = std::make_shared<RemoteFlag>();
  auto remote_only = std::make_shared<bool>(false);
  command->add_flag("--remote", *remote_only,
                    "check the remote cache of TUNESMITH_REMOTE instead; fails if it does not work");
  command->add_flag("--json", *json, "print one JSON object, nothing else");
  command->callback([&parse, flags, json, remote, remote_only] {
    parse.action = [flags, json, remote, remote_only] {
      return *remote_only ? check_remote(remote->text(), *json) : doctor(*flags, *json);
    };
  });
}

}  // namespace tunesmith::cli
