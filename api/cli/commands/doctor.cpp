// tunesmith doctor: shows what Tunesmith finds, names what is wrong and what to type.

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "api/cli/arguments/errors.h"
#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/remote_flag.h"
#include "api/cli/commands/commands.h"
#include "api/cli/doctor/commit.h"
#include "api/cli/doctor/findings.h"
#include "api/cli/report/table.h"
#include "fleet/check.h"
#include "tunesmith/version.h"

namespace tunesmith::cli {
namespace {

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

/// What this installation can do here.
struct Abilities {
  bool run_on_gpu, run_on_cpu, compile_for_gpu;

  Json json() const {
    return {{"run_on_gpu", run_on_gpu}, {"run_on_cpu", run_on_cpu}, {"compile_for_gpu", compile_for_gpu}};
  }
  std::string text() const {
    std::string text;
    const auto add = [&](bool can, const char* what) {
      if (can) text += (text.empty() ? "" : ", ") + std::string(what);
    };
    add(run_on_gpu, "run kernels on a GPU");
    add(run_on_cpu, "run kernels on the CPU");
    add(compile_for_gpu, "compile kernels for GPUs");
    return text.empty() ? "show the source of kernels, nothing else" : text;
  }
  bool enough_for(const std::string& device) const {
    if (device == "host") return run_on_cpu;
    if (device.starts_with("cuda")) return run_on_gpu;
    return run_on_gpu || run_on_cpu || compile_for_gpu;
  }
};

int doctor(const EngineFlags& flags, bool json) {
  EngineOptions options = flags.options();
  options.log = nullptr;  // the report contains the warnings
  const Surroundings around = look_around();
  const GpuFinding gpus = look_for_gpus(around, std::getenv("CUDA_VISIBLE_DEVICES"));
  const bool has_gpu = !gpus.archs.empty();
  const std::pair<const char*, Finding> findings[] = {{"system", describe_system(around)},
                                                      {"driver", gpus.finding},
                                                      {"nvrtc", look_for_nvrtc(options, gpus)},
                                                      {"cublas_lt", look_for_cublas_lt(options)},
                                                      {"host_compiler", look_for_host_compiler(options, has_gpu)},
                                                      {"cache", look_at_cache(options)},
                                                      {"shipped", look_at_shipped_records(options)},
                                                      {"environment", look_at_environment()}};
  Json facts{{"version", TUNESMITH_VERSION}, {"commit", commit}};
  Lines lines{{"tunesmith", std::string(TUNESMITH_VERSION) + " (" + commit + ")"}};
  Json problems = Json::array();
  Lines advice;
  for (const auto& [name, finding] : findings) {
    facts[name] = finding.facts;
    lines.insert(lines.end(), finding.lines.begin(), finding.lines.end());
    for (const Diagnosis& diagnosis : finding.diagnoses) {
      problems.push_back({{"what", diagnosis.what}, {"fix", diagnosis.fix}});
      advice.emplace_back("problem", diagnosis.what);
      advice.emplace_back("  fix", diagnosis.fix);
    }
  }
  // Binaries in a cache run without a compiler.
  const bool has_nvrtc = facts["nvrtc"]["found"].get<bool>();
  std::int64_t binaries = facts["cache"]["binaries"].get<std::int64_t>();
  for (const Json& file : facts["cache"]["system_files"]) binaries += file["binaries"].get<std::int64_t>();
  const Abilities can{has_gpu && (has_nvrtc || binaries > 0), facts["host_compiler"]["found"].get<bool>(), has_nvrtc};
  facts["can"] = can.json();
  facts["problems"] = problems;
  lines.emplace_back("can", can.text());
  lines.insert(lines.end(), advice.begin(), advice.end());
  if (advice.empty()) lines.emplace_back("problems", "none");
  std::fputs(json ? (dump_pretty(facts) + "\n").c_str() : listing(lines).c_str(), stdout);
  return can.enough_for(options.device) ? exit_done : exit_failed;
}

}  // namespace

void add_doctor(CLI::App& app, Parse& parse) {
  CLI::App* command = app.add_subcommand(
      "doctor", "show what is installed, what is wrong and what to type: driver, GPUs, NVRTC, host compiler, cache");
  auto flags = std::make_shared<EngineFlags>();
  auto json = std::make_shared<bool>(false);
  flags->add_device(*command);
  flags->add_cache(*command);
  auto remote = std::make_shared<RemoteFlag>();
  auto remote_only = std::make_shared<bool>(false);
  command->add_flag("--remote", *remote_only,
                    "check the remote cache of TUNESMITH_REMOTE instead; fails if it does not work");
  command->add_flag("--json", *json, "print one JSON object, nothing else");
  command->footer(
      "Exit code 0: kernels can run on the device, or for auto be compiled here; 1: they cannot, and it says why.");
  command->callback([&parse, flags, json, remote, remote_only] {
    parse.action = [flags, json, remote, remote_only] {
      return *remote_only ? check_remote(remote->text(), *json) : doctor(*flags, *json);
    };
  });
}

}  // namespace tunesmith::cli
