#include "tuner/select.h"

#include <cmath>

#include "tuner/recorded.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

/// Records looked at before the default is preferred. More would be further away still.
constexpr int nearest_looked_at = 8;

/// Records of older templates looked at, the newest first.
constexpr int older_looked_at = 4;

/// A record for n_cols further away than this factor says less than the descriptor's default does: a kernel that suits
/// 262144 columns runs on 128 of them, but badly.
constexpr double nearest_factor = 4;

bool is_near(std::int64_t recorded, std::int64_t wanted) {
  if (recorded <= 0 || wanted <= 0) return recorded == wanted;
  return std::fabs(std::log(static_cast<double>(recorded) / static_cast<double>(wanted))) <= std::log(nearest_factor) + 1e-9;
}

/// Covers every kernel in the folder of the operation, not only those that this problem's candidates use: a record must be
/// found from a neighbouring n_cols for which the set of sensible kernels differs.
std::string templates_digest(const ParsedProblem& problem, const DeviceInfo& device, const TemplateSet& templates) {
  const std::string main_template = problem.source_parts(problem.default_config(device)).main_template;
  const std::size_t folder = main_template.rfind('/');
  return folder == std::string::npos ? templates.digest(main_template)
                                     : templates.folder_digest(main_template.substr(0, folder));
}

}  // namespace

std::string measuring_policy() { return "events,l2-flushed,v1"; }

TuningKey tuning_key(const ParsedProblem& problem, const DeviceInfo& device, const TemplateSet& templates) {
  KeyParts parts = problem.key();
  TuningKey key;
  key.op = problem.op().name();
  key.problem_class = std::move(parts.problem_class);
  key.n_cols = parts.n_cols;
  key.rows_bucket = parts.rows_bucket;
  key.device_class = device.device_class();
  key.template_digest = templates_digest(problem, device, templates);
  key.policy = measuring_policy();
  return key;
}

Selection select(const ParsedProblem& problem, const DeviceInfo& device, const TemplateSet& templates, Cache& cache,
                 Mode mode, const std::map<std::string, std::string>& provenance) {
  Selection selection;
  const auto use = [&](const TuningRecord& record, Origin origin) {
    std::optional<Config> config = recorded_config(problem, device, record.config);
    if (!config) return false;
    selection.config = std::move(*config);
    selection.origin = origin;
    selection.nearest_n_cols = record.key.n_cols;
    selection.stale = is_stale(record, provenance);
    selection.median_us = record.median_us;
    return true;
  };
  if (mode != Mode::off) {
    const TuningKey key = tuning_key(problem, device, templates);
    if (const auto record = cache.find_record(key); record && use(*record, Origin::exact)) return selection;
    for (const TuningRecord& record : cache.find_older(key, older_looked_at))
      if (use(record, Origin::older)) return selection;
    for (const TuningRecord& record : cache.find_nearest(key, nearest_looked_at))
      if (record.key != key && is_near(record.key.n_cols, key.n_cols) && use(record, Origin::nearest)) return selection;
  }
  selection.config = problem.default_config(device);
  return selection;
}

}  // namespace tunesmith
