// tunesmith run: prepares and runs one problem, checks the result and measures it.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>

#include "api/cli/arguments/errors.h"
#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/operations.h"
#include "api/cli/input/arrays.h"
#include "api/cli/input/check_starts.h"
#include "api/cli/input/check_targets.h"
#include "api/cli/input/forward_pass.h"
#include "api/cli/input/problem_from_files.h"
#include "api/cli/report/run_report.h"
#include "api/cli/tuning/interrupt.h"
#include "api/engine/parts.h"
#include "api/engine/plan_state.h"
#include "tuner/evaluate.h"

namespace tunesmith::cli {
namespace {

// Larger results are checked on evenly spread rows: about this many elements take a second.
constexpr std::int64_t max_checked_elements = std::int64_t{1} << 24;

struct RunFlags {
  std::shared_ptr<const ProblemFlags> problem;
  EngineFlags engine;
  ConfigFlag config;
  std::vector<std::string> inputs, outputs;
  std::int64_t seed = 1;
  bool check_only = false, json = false;
};

std::int64_t rows_to_check(const std::vector<ArrayInfo>& arrays) {
  std::int64_t per_row = 1;
  for (const ArrayInfo& array : arrays)
    if (array.output && array.shape.size() > 1) per_row = std::max(per_row, array.shape.back());
  return std::max<std::int64_t>(1, max_checked_elements / per_row);
}

/// Makes the engine tune in a child process, because a candidate may crash it. The facts of the result go to `tuning`.
Tuner tune_in_children(const Engine& engine, Json& tuning) {
  return [&engine, &tuning](const ParsedProblem& problem) -> std::optional<Tuned> {
    const EngineOptions& options = engine.options();
    TuneRequest request;
    request.problem = problem.problem();
    request.device = "cuda:" + std::to_string(engine.device().ordinal);
    request.cache_file = options.cache_file;
    request.effort = options.effort;
    request.budget_s = options.tune_budget_s;
    try {
      tuning = tune_in_child(request);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::device_failed) throw;
      warn(std::string(error.what()) + "; going on without tuning");
      return std::nullopt;
    }
    return Tuned{{parse_fields(tuning.at("config").get<std::string>(), "tuned config")}, tuning.value("wall_s", 0.0)};
  };
}

int run(const RunFlags& flags) {
  const Op& op = flags.problem->op();
  const FileMap output_files = parse_files(flags.outputs, "--output");
  InputFiles input_files = open_inputs(parse_files(flags.inputs, "--input"));
  const Config pinned = flags.config.config();
  EngineOptions options = flags.engine.options();
  const Problem asked = flags.problem->problem();
  const Value* const check = asked.fields.find("check_targets");
  const bool check_targets = check != nullptr && *check == Value(std::int64_t{1});
  const Problem shaped = with_file_shapes(op, asked, input_files);
  const ParsedProblemPtr parsed = op.parse(with_arrays_of_files(op, shaped, input_files, output_files));
  const Problem& problem = parsed->problem();
  const std::vector<ArrayInfo> infos = parsed->arrays();
  check_files(op, infos, input_files);
  check_outputs(op, infos, output_files);
  for (const auto& [array, path] : output_files) check_writable(path);

  Engine engine(options);
  RunReport report;
  report.problem = problem;
  if (op.name() != problem.op) report.shipped_program = op.name();
  report.device = engine.device();
  if (report.device.kind == DeviceInfo::Kind::host && options.device == "auto")
    std::fputs("tunesmith: no GPU here; the host executor runs the same generated source on the CPU\n", stderr);
  if (!pinned.fields.empty()) parsed->complete_config(report.device, pinned);  // before any work
  HostArrays host(infos);  // after the engine: without its device, no memory is needed
  host.fill(op, problem, static_cast<std::uint64_t>(flags.seed), input_files);
  check_starts(problem, host.arrays());
  run_forward_pass(engine, problem, host.arrays(), input_files);
  host.keep_inputs();

  engine.parts().tuner = tune_in_children(engine, report.tuning);
  const Plan plan = engine.prepare(problem, {pinned});
  report.config = plan.config();
  report.origin = plan.origin();
  report.nearest_n_cols = plan.nearest_n_cols();
  report.launched = !parsed->launch_plan(plan.config(), report.device).kernels.empty();
  report.occupancy = plan.occupancy();
  report.resources = plan.resources();
  report_binary(report, plan);
  report.cost = parsed->cost();

  Device& device = *engine.parts().device;
  const DeviceArrays arrays(device, host.arrays());
  plan.launch(arrays.addresses());
  device.synchronize(nullptr);
  arrays.fetch_outputs(host.arrays());
  report.check =
      parsed->check_outputs(host.arrays(), rows_to_check(infos), evaluate_on(device, plan.state().loaded->module));
  if (report.check.passed && report.launched && !flags.check_only)
    report.measurement = measure(
        device, [&](Stream stream) { plan.launch(arrays.addresses(), stream); }, report.cost.bytes());
  const std::string bad = check_targets ? bad_targets(problem, host.arrays()) : "";
  if (report.check.passed && bad.empty()) {
    const bool one_row = one_row_given(infos, input_files);
    for (const HostArray& array : host.arrays())
      if (const auto file = output_files.find(array.info.name); file != output_files.end()) {
        write_array(array, one_row, file->second);
        report.outputs[array.info.name] = file->second.string();
      }
  }
  std::fputs(flags.json ? (dump_pretty(to_json(report)) + "\n").c_str() : to_table(report).c_str(), stdout);
  if (!report.check.passed)
    throw Error(ErrorCode::verification_failed,
                "the result differs from the float64 reference: ", report.check.first_failure,
                output_files.empty() ? "" : "; no output was written");
  if (bad.empty()) return exit_done;
  std::fprintf(stderr, "tunesmith: error: %s%s\n", bad.c_str(), output_files.empty() ? "" : "; no output was written");
  return exit_failed;
}

}  // namespace

void add_run(CLI::App& app, Parse& parse) {
  CLI::App* run_command = app.add_subcommand("run", "run one problem, check the result against float64, and measure it");
  run_command->footer(
      "`tunesmith run OP --help` lists the flags of an operation.\n"
      "\n"
      "Examples:\n"
      "  tunesmith run softmax --rows 4096 --cols 32000 --dtype bf16\n"
      "  tunesmith run softmax --input x=logits.npy --output y=probabilities.npy\n"
      "  tunesmith run softmax --rows 8 --cols 1000 --device host --config variant=two_pass,threads=128\n"
      "  tunesmith run softmax --input x=scores.npy --input mask=mask.npy --mask keep --scale 0.125\n"
      "  tunesmith run cross_entropy --rows 8192 --cols 128256 --dtype bf16 --gradient in_place --label-smoothing 0.1\n"
      "  tunesmith run cross_entropy --input logits=l.npy --input targets=t.npy --output loss=loss.npy\n"
      "  tunesmith run attention --batch 4 --heads 32 --kv-heads 8 --seq-q 4096 --head-dim 128 --causal\n"
      "  tunesmith run attention --input q=q.npy --input k=k.npy --input v=v.npy --layout bhsd --output o=o.npy\n"
      "  tunesmith run attention_backward --heads 8 --seq-q 4096 --head-dim 64   # runs attention first for o and lse");
  add_operations(*run_command, parse, [](CLI::App& command, const std::shared_ptr<const ProblemFlags>& problem) -> Action {
    auto flags = std::make_shared<RunFlags>();
    flags->problem = problem;
    command
        .add_option(
            "--input", flags->inputs,
            "read an array from a file, which sets shape, dtype and the switch of an optional array. Types: "
            "f32 '<f4', f16 '<f2', bf16 '<u2', u8 '|u1' or '|b1', e4m3 and e5m2 '|u1', i8 '|i1', i32 '<i4', i64 '<i8'")
        ->type_name("NAME=FILE.npy")
        ->allow_extra_args(false);
    command.add_option("--output", flags->outputs, "write an array to a file; enables an optional array")
        ->type_name("NAME=FILE.npy")
        ->allow_extra_args(false);
    add_number(command, "--seed", flags->seed, 0, std::numeric_limits<std::int64_t>::max(),
               "seed of the random inputs, for arrays without a file (default: 1)");
    flags->engine.add_device(command);
    flags->engine.add_mode(command);
    flags->engine.add_specialize(command);
    flags->config.add_to(command);
    flags->engine.add_cache(command);
    command.add_flag("--check-only", flags->check_only, "launch once and check the result, but do not measure");
    command.add_flag("--json", flags->json, "print one JSON object, nothing else");
    return [flags] { return run(*flags); };
  });
}

}  // namespace tunesmith::cli
