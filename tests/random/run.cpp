#include "tests/random/run.h"

#include <algorithm>

#include "jit/host/compiler.h"
#include "jit/host/device.h"
#include "templates/render.h"
#include "tests/random/chance.h"
#include "tests/random/launches.h"
#include "tuner/verify.h"
#include "tunesmith/error.h"

namespace tunesmith::test {

Runner::Runner(const std::string& device) {
  EngineOptions options = EngineOptions::from_environment();
  if (device == "host")
    device_ = std::make_shared<HostDevice>(HostDeviceOptions{.workers = 1, .compiler = {}});
  else
    device_ = open_device(device);
  compiler_ = open_compiler(device_->info().kind, options);
}
Runner::~Runner() = default;

const DeviceInfo& Runner::info() const noexcept { return device_->info(); }

std::shared_ptr<Module> Runner::compile(const ParsedProblem& problem, const Config& config) {
  return device_->load(compiler_->compile({problem.problem().op + ".cu", render(problem, config), info().arch}));
}

void Runner::run(std::vector<Run>& runs, const RunOptions& options, const std::function<void(const Run&)>& started) {
  std::vector<std::shared_ptr<Module>> modules(runs.size());
  if (on_host()) try {
      std::vector<CompileRequest> requests;
      for (const Run& run : runs)
        requests.push_back(
            {run.checked.problem->problem().op + ".cu", render(*run.checked.problem, run.checked.config), info().arch});
      modules =
          dynamic_cast<HostDevice&>(*device_).load_all(dynamic_cast<const HostCompiler&>(*compiler_).compile_many(requests));
    } catch (const Error&) {  // each alone then
    }
  for (std::size_t i = 0; i < runs.size() && !broken_; ++i) {
    started(runs[i]);
    run_one(runs[i], modules[i], options);
  }
}

void Runner::run_one(Run& run, const std::shared_ptr<Module>& module, const RunOptions& options) {
  try {
    const std::shared_ptr<Module> loaded = module != nullptr ? module : compile(*run.checked.problem, run.checked.config);
    run.failure = verify_variants(run, loaded, options);
    if (run.failure.empty() && options.all_candidates) run.failure = verify_candidates(run, options);
  } catch (const Error& error) {
    run.failure = std::string(name(error.code())) + ": " + error.what();
    if (!error.log().empty()) run.failure += "\n" + error.log().substr(0, 2000);
  } catch (const std::exception& error) {
    run.failure = std::string("throws ") + error.what();
  }
}

std::string Runner::verify_variants(Run& run, const std::shared_ptr<Module>& module, const RunOptions& options) {
  const RandomCase& drawn = run.random_case;
  Chance chance(mixed(drawn.seed, "variants"));
  const auto launch = [&](const ParsedProblem& problem, const RandomCase& values) -> std::string {
    const Executable executable(*device_, module, problem.launch_plan(run.checked.config, info()));
    const CheckResult result = verify(problem, executable, *device_, values.seed,
                                      [&](std::span<const HostArray> arrays) { fill_values(values, problem, arrays); });
    ++run.launches;
    if (!result.passed) return result.first_failure;
    std::string failure = check_addresses(problem, executable, *device_, values.seed);
    if (failure.empty() && !on_host())
      failure = check_repeats(problem, executable, *device_, values.seed, options.graphs && chance.with(0.25));
    return failure;
  };
  const auto verify_one = [&](const ParsedProblem& problem, const RandomCase& values) -> std::string {
    std::string failure;
    try {
      failure = launch(problem, values);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::unsupported && on_host()) return {};  // such as some tensor maps
      failure = std::string(name(error.code())) + ": " + error.what();
      broken_ = error.code() == ErrorCode::device_failed && !on_host();
    }
    if (failure.empty()) return {};
    run.random_case = {problem.problem(), run.checked.config, values.values, values.seed, {}};
    return failure;
  };
  const ParsedProblem& problem = *run.checked.problem;
  std::string failure = verify_one(problem, drawn);
  // The same kernel with other values, and with other fields that it does not know.
  RandomCase other = drawn;
  for (int i = 0; i < 2 && failure.empty(); ++i) {
    other.values = static_cast<Values>(chance.below(std::size(values_names)));
    ++other.seed;
    failure = verify_one(problem, other);
  }
  const std::string source = render(problem, run.checked.config);
  for (int i = 0; i < 3 && failure.empty(); ++i) {
    Fields changes;
    for (const DescribedField& field : problem.op().describe_fields(problem.problem().fields))
      if (field.facts.runtime && field.kind == FieldKind::integer && chance.with(0.5))
        changes.set(field.name,
                    chance.octave(std::max<std::int64_t>(field.facts.range.least, 0), options.large ? 3000 : 100));
    if (changes.empty()) break;
    ParsedProblemPtr changed;
    try {
      changed = problem.with(changes);
    } catch (const Error&) {
      continue;
    }
    if (!fits(*changed, options.large ? large_sizes : small_sizes) ||
        !changed->why_invalid(info(), run.checked.config).empty() || render(*changed, run.checked.config) != source)
      continue;
    failure = verify_one(*changed, drawn);
  }
  return failure;
}

std::string Runner::verify_candidates(Run& run, const RunOptions&) {
  const ParsedProblemPtr small = run.checked.problem->op().parse(run.checked.problem->verification_problem());
  for (const Config& config : run.checked.problem->search_space(info(), Effort::full)) {
    const Executable executable(*device_, compile(*small, config), small->launch_plan(config, info()));
    const CheckResult result = verify(*small, executable, *device_, run.random_case.seed);
    ++run.launches;
    if (!result.passed)
      return "the candidate " + config.text() + " fails on " + small->problem().text() + ": " + result.first_failure;
  }
  return {};
}

}  // namespace tunesmith::test
