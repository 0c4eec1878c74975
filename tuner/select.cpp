#include "tuner/select.h"

#include <cmath>

#include "core/half_octave.h"
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

}  // namespace

std::string measuring_policy() { return "events,l2-flushed,v1"; }

std::int64_t tuned_n_cols(const KeyParts& parts) noexcept {
  return parts.n_cols_in_buckets ? half_octave(parts.n_cols) : parts.n_cols;
}

TuningKey tuning_key(const ParsedProblem& problem, const DeviceInfo& device, const TemplateSet& templates) {
  KeyParts parts = problem.key();
  TuningKey key;
  key.op = problem.op().name();
  key.n_cols = tuned_n_cols(parts);
  key.problem_class = std::move(parts.problem_class);
  key.rows_bucket = parts.rows_bucket;
  key.device_class = device.device_class();
  key.template_digest = templates.digest(problem.op().templates());
  key.policy = measuring_policy();
  return key;
}

std::optional<TuningKey> related_key(const KeyParts& parts, TuningKey key) {
  if (parts.related_class.empty()) return std::nullopt;
  key.problem_class = parts.related_class;
  return key;
}

std::vector<KnownRecord> known_records(const ParsedProblem& problem, const TuningKey& key, Cache& cache,
                                       const std::map<std::string, std::string>& provenance) {
  std::vector<KnownRecord> known;
  const auto add = [&](const TuningRecord& record, Origin origin) {
    try {
      known.push_back({record.key.n_cols, problem.configure({parse_fields(record.config, "recorded config")}), origin,
                       is_stale(record, provenance), record.median_us});
    } catch (const Error&) {  // written by another version or hand
    }
  };
  const KeyParts parts = problem.key();
  if (const auto record = cache.find_record(key)) add(*record, Origin::exact);
  const std::vector<TuningRecord> near = cache.find_nearest(key, nearest_looked_at);
  // Records of earlier versions, and records that were written by hand, may have any n_cols of the bucket.
  const auto is_in_bucket = [&](const TuningRecord& record) {
    return parts.n_cols_in_buckets && record.key != key && record.key.rows_bucket == key.rows_bucket &&
           half_octave(record.key.n_cols) == key.n_cols;
  };
  for (const TuningRecord& record : near)
    if (is_in_bucket(record)) add(record, Origin::exact);
  for (const TuningRecord& record : cache.find_older(key, older_looked_at)) add(record, Origin::older);
  for (const TuningRecord& record : near)
    if (record.key != key && !is_in_bucket(record) && is_near(record.key.n_cols, key.n_cols)) add(record, Origin::nearest);
  if (const auto related = related_key(parts, key))
    for (const TuningRecord& record : cache.find_nearest(*related, nearest_looked_at))
      if (is_near(record.key.n_cols, key.n_cols)) add(record, Origin::nearest);
  return known;
}

Selection select(const ParsedProblem& problem, const DeviceInfo& device, const std::vector<KnownRecord>& records) {
  Selection selection;
  const auto use = [&](const KnownRecord& record) {
    if (!problem.why_invalid(device, record.config).empty()) return false;
    selection.config = record.config;
    selection.origin = record.origin;
    selection.nearest_n_cols = record.n_cols;
    selection.stale = record.stale;
    selection.median_us = record.median_us;
    return true;
  };
  const std::int64_t n_cols = records.empty() ? 0 : problem.key().n_cols;
  for (const KnownRecord& record : records)
    if (record.origin == Origin::exact && record.n_cols == n_cols && use(record)) return selection;
  for (const KnownRecord& record : records)
    if (use(record)) return selection;
  selection.config = problem.default_kernel_config(device);
  return selection;
}

Selection select(const ParsedProblem& problem, const DeviceInfo& device, const TemplateSet& templates, Cache& cache,
                 Mode mode, const std::map<std::string, std::string>& provenance) {
  if (mode == Mode::off) return select(problem, device, {});
  return select(problem, device, known_records(problem, tuning_key(problem, device, templates), cache, provenance));
}

}  // namespace tunesmith
