#include "tests/random/run.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "jit/host/compiler.h"
#include "jit/host/device.h"
#include "templates/render.h"
#include "tests/random/chance.h"
#include "tests/random/launches.h"
#include "tuner/verify.h"
#include "tunesmith/error.h"

namespace tunesmith::test {
namespace {

constexpr int tries_for_same_source = 16, max_of_same_source = 4;

}  // namespace

Runner::Runner(const std::string& device, SourceChange mutation) : mutation_(std::move(mutation)) {
  if (device == "host") {
    device_ = std::make_shared<HostDevice>(HostDeviceOptions{.workers = 1, .compiler = {}});
    compiler_ = std::make_shared<HostCompiler>(
        HostCompilerOptions{.compiler = {}, .extra_flags = {"-fsanitize=alignment"}, .dump_folder = {}});
  } else {
    device_ = open_device(device);
    compiler_ = open_compiler(device_->info().kind, EngineOptions::from_environment());
  }
}
Runner::~Runner() = default;

const DeviceInfo& Runner::info() const noexcept { return device_->info(); }

const DeviceInfo& Runner::drawn_for(std::uint64_t seed) const noexcept {
  return on_host() && mixed(seed, "device") % 2 == 0 ? hopper_ : info();
}

std::shared_ptr<Module> Runner::compile(const ParsedProblem& problem, const Config& config) {
  return device_->load(compiler_->compile(request_of(problem, config)));
}

CompileRequest Runner::request_of(const ParsedProblem& problem, const Config& config) const {
  CompileRequest made{problem.problem().op + ".cu", render(problem, config), info().arch};
  const auto& [from, to] = mutation_;
  if (!from.empty())
    for (std::size_t at = made.source.find(from); at != std::string::npos; at = made.source.find(from, at + to.size()))
      made.source.replace(at, from.size(), to);
  return made;
}

bool Runner::is_quick(const ParsedProblem& problem, const Config& config) const {
  if (!on_host()) return true;
  constexpr double max_threads = 5e5, max_blocks = 2e4;
  double threads = 0, blocks = 0;
  for (const KernelLaunch& kernel : problem.launch_plan(config, info()).kernels) {
    blocks += static_cast<double>(kernel.grid.count());
    threads += static_cast<double>(kernel.grid.count()) * static_cast<double>(kernel.block.count());
  }
  // Blocks that go on with other rows.
  const Fields& fields = problem.problem().fields;
  if (fields.contains("rows") && config.fields.contains("blocks_per_row") && config.fields.contains("threads"))
    threads = std::max(threads, static_cast<double>(fields.integer("rows")) *
                                    static_cast<double>(config.fields.integer("threads")) *
                                    static_cast<double>(config.fields.integer("blocks_per_row")));
  return threads <= max_threads && blocks <= max_blocks;
}

void Runner::run(std::vector<Run>& runs, const RunOptions& options, const Started& started) {
  std::vector<std::shared_ptr<Module>> modules(runs.size());
  if (on_host()) try {
      std::vector<CompileRequest> requests;
      for (const Run& run : runs) requests.push_back(request_of(*run.checked.problem, run.checked.config));
      modules =
          dynamic_cast<HostDevice&>(*device_).load_all(dynamic_cast<const HostCompiler&>(*compiler_).compile_many(requests));
    } catch (const Error&) {  // each alone then
    }
  for (std::size_t i = 0; i < runs.size() && !broken_; ++i) run_one(runs[i], modules[i], options, started);
}

void Runner::run_one(Run& run, const std::shared_ptr<Module>& module, const RunOptions& options, const Started& started) {
  try {
    const std::shared_ptr<Module> loaded = module != nullptr ? module : compile(*run.checked.problem, run.checked.config);
    run.failure = verify_variants(run, loaded, options, started);
    if (run.failure.empty() && options.all_candidates) run.failure = verify_candidates(run, options);
  } catch (const Error& error) {
    run.failure = std::string(name(error.code())) + ": " + error.what();
    if (!error.log().empty()) run.failure += "\n" + error.log().substr(0, 2000);
  } catch (const std::exception& error) {
    run.failure = std::string("throws ") + error.what();
  }
}

std::string Runner::verify_variants(Run& run, const std::shared_ptr<Module>& module, const RunOptions& options,
                                    const Started& started) {
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
    const RandomCase launched{problem.problem(), run.checked.config, values.values, values.seed, {}};
    started(run, launched);
    std::string failure;
    try {
      failure = launch(problem, values);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::unsupported && on_host()) return {};  // such as some tensor maps: not covered
      failure = std::string(name(error.code())) + ": " + error.what();
      broken_ = error.code() == ErrorCode::device_failed && !on_host();
    }
    if (failure.empty()) {
      if (options.verified) options.verified(values, problem, run.checked.config);
      return {};
    }
    run.random_case = launched;
    return failure;
  };
  const ParsedProblem& problem = *run.checked.problem;
  const auto gain = [&](const RandomCase& values, const ParsedProblem& of) {
    return options.gain ? options.gain(values, of, run.checked.config) : std::size_t{1};
  };
  std::string failure = verify_one(problem, drawn);
  if (!options.variants) return failure;
  // The same kernel with other values: those that cover most.
  std::vector<std::pair<std::size_t, Values>> kinds;
  for (std::size_t i = 0; i < std::size(values_names); ++i) {
    RandomCase other = drawn;
    other.values = static_cast<Values>(i);
    if (other.values != drawn.values && values_in(other.values, problem) == other.values)
      kinds.emplace_back(gain(other, problem), other.values);
  }
  chance.shuffle(kinds);
  std::ranges::stable_sort(kinds, std::greater<>(), [](const auto& kind) { return kind.first; });
  RandomCase other = drawn;
  for (std::size_t i = 0; i < std::min<std::size_t>(kinds.size(), 2) && failure.empty(); ++i) {
    if (i > 0 && kinds[i].first == 0) break;
    other.values = kinds[i].second;
    ++other.seed;
    failure = verify_one(problem, other);
  }
  // And with other problems that have its source.
  const SourceParts parts = problem.source_parts(run.checked.config);
  int launched = 0;
  for (int i = 0; i < tries_for_same_source && launched < max_of_same_source && failure.empty(); ++i) {
    const ParsedProblemPtr changed = draw_change(problem, chance.bits(), options.large ? large_sizes : small_sizes, info());
    if (changed == nullptr || !fits(*changed, options.large ? large_sizes : small_sizes) ||
        !changed->why_invalid(info(), run.checked.config).empty() ||
        !same_code(changed->source_parts(run.checked.config), parts) || !is_quick(*changed, run.checked.config))
      continue;
    other.problem = changed->problem();
    other.values = static_cast<Values>(chance.below(std::size(values_names)));
    ++other.seed;
    if (launched > 0 && gain(other, *changed) == 0) continue;
    failure = verify_one(*changed, other);
    ++launched;
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
