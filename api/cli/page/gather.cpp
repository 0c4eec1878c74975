#include "api/cli/page/gather.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/problem_flags.h"
#include "api/cli/arguments/target.h"
#include "api/cli/cache/current_version.h"
#include "api/cli/cache/recorded.h"
#include "api/cli/report/resources.h"
#include "api/engine/parts.h"
#include "templates/render.h"
#include "tuner/select.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

/// A copy moves as many bytes as the measured problem within this factor.
constexpr double max_different_bytes = 2;

double distance(double a, double b) { return a > 0 && b > 0 ? std::fabs(std::log(a / b)) : HUGE_VAL; }

/// Returns the rate of the recorded copy whose bytes are nearest.
std::optional<double> copy_rate(const std::vector<TuningRecord>& records, const TuningRecord& record) {
  const TuningRecord* nearest = nullptr;
  for (const TuningRecord& copy : records) {
    if (copy.key.op != "copy" || copy.key.device_class != record.key.device_class || copy.median_us <= 0) continue;
    if (nearest == nullptr || distance(copy.bytes, record.bytes) < distance(nearest->bytes, record.bytes)) nearest = &copy;
  }
  if (nearest == nullptr || distance(nearest->bytes, record.bytes) > std::log(max_different_bytes)) return std::nullopt;
  return nearest->bytes / nearest->median_us * 1e-3;
}

/// "NVIDIA H200;sm_90a;sm=132;l2=60MiB" -> "sm_90a"; empty for a class of another form.
std::string arch_of(const std::string& device_class) {
  const std::size_t begin = device_class.find(';');
  if (begin == std::string::npos) return {};
  return device_class.substr(begin + 1, device_class.find(';', begin + 1) - begin - 1);
}

void add_source(TuningPage& page, const EngineOptions& options) {
  const TuningRecord& record = page.record;
  const ParsedProblemPtr parsed = recorded_problem(record);
  const Config config = recorded_config(record);
  page.cost = parsed->cost();
  const KernelSource source(*parsed, config, open_templates(options));
  page.kernel = source.render_kernel();
  page.source = source.render();
  try {
    const Target target = find_target(arch_of(record.key.device_class));
    const LaunchPlan plan = parsed->launch_plan(config, target.device);
    const Binary binary =
        open_compiler(DeviceInfo::Kind::cuda, options)->compile({record.key.op + ".cu", page.source, target.device.arch});
    page.resource_columns = resource_columns();
    page.resources = resource_rows(target.device, plan, binary);
  } catch (const Error& error) {
    page.no_resources = std::string("The kernel was not compiled: ") + error.what();
  }
}

}  // namespace

FoundTuning find_tuning(const Problem& problem, Cache& cache, const TemplateSet& templates) {
  const ParsedProblemPtr parsed = find_op(problem.op).parse(problem);
  const Target target = find_target("");
  const TuningKey key = tuning_key(*parsed, target.device, templates);
  std::vector<TuningRecord> records = cache.list_records();
  std::erase_if(records, [&](const TuningRecord& record) {
    return record.key.op != key.op || record.key.problem_class != key.problem_class;
  });
  if (records.empty())
    throw Error(ErrorCode::not_found, "the cache has no record of ", problem.op, " ", brief(problem),
                " with these options; `tunesmith tune` makes one, `tunesmith cache list --all --op ", key.op,
                "` shows others");
  const auto is_of_other_gpu = [&](const TuningRecord& record) {
    return target.present && record.key.device_class != key.device_class;
  };
  const auto farness = [&](const TuningRecord& record) {
    return std::tuple(is_of_other_gpu(record),
                      distance(static_cast<double>(record.key.n_cols), static_cast<double>(key.n_cols)),
                      distance(static_cast<double>(record.key.rows_bucket), static_cast<double>(key.rows_bucket)),
                      record.key.template_digest != key.template_digest, -record.created_unix_s);
  };
  FoundTuning found{*std::ranges::min_element(records, {}, farness), ""};
  if (found.record.problem != problem.text()) found.instead_of = brief(problem);
  if (is_of_other_gpu(found.record)) found.instead_of = brief(problem) + " on " + target.device.name;
  return found;
}

TuningPage gather(const TuningRecord& record, Cache& cache, const EngineOptions& options) {
  TuningPage page;
  page.record = record;
  CurrentVersion version(options);
  page.use = version.use_of(record);
  page.trials = cache.find_trials(record.key);
  const std::vector<TuningRecord> records = cache.list_records();
  page.copy_gb_per_s = copy_rate(records, record);
  for (const TuningRecord& other : records)
    if (other.key.op == record.key.op && other.key.problem_class == record.key.problem_class &&
        other.key.device_class == record.key.device_class)
      page.related.push_back(other);
  try {
    add_source(page, options);
  } catch (const Error& error) {  // a record of another version
    page.no_source = std::string("This version cannot render the kernel: ") + error.what();
    page.no_resources = page.no_source;
  }
  return page;
}

void write_page(const TuningPage& page, const std::string& file) {
  std::ofstream stream(file, std::ios::binary);
  if (!(stream << html(page)).flush()) throw Error(ErrorCode::io, "file '", file, "' cannot be written");
}

}  // namespace tunesmith::cli
