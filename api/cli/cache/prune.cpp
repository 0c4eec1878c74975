#include "api/cli/cache/prune.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>

#include "api/cli/arguments/errors.h"
#include "api/cli/arguments/flags.h"
#include "api/cli/cache/current_version.h"
#include "api/cli/report/table.h"
#include "api/cli/tuning/tune_child.h"

namespace tunesmith::cli {
namespace {

constexpr std::int64_t seconds_per_day = 86400;

/// Entries to remove, and why.
struct Verdict {
  Cache::PruneRequest request;
  std::map<std::pair<std::string, std::string>, int> reasons;  ///< how many, by kind and reason
  Json records = Json::array(), binaries = Json::array();
};

/// Whether select() always prefers another of the records: one of these templates, or a newer one of older templates.
bool is_superseded(const TuningRecord& record, const std::vector<TuningRecord>& records, CurrentVersion& version) {
  return std::ranges::any_of(records, [&](const TuningRecord& other) {
    TuningKey key = other.key;
    key.template_digest = record.key.template_digest;
    if (key != record.key || other.key == record.key || !version.why_unusable(other).empty()) return false;
    return !version.is_older(other) ||
           std::pair(other.created_unix_s, other.key) > std::pair(record.created_unix_s, record.key);
  });
}

void select_records(Verdict& verdict, Cache& cache, CurrentVersion& version) {
  const std::vector<TuningRecord> records = cache.list_records();
  for (const TuningRecord& record : records) {
    std::string why = version.why_unusable(record);
    if (why.empty() && version.is_older(record) && is_superseded(record, records, version)) why = "measured again since";
    if (why.empty()) continue;
    verdict.request.records.push_back(record.key);
    ++verdict.reasons[{"records", why}];
    verdict.records.push_back({{"op", record.key.op},
                               {"problem_class", record.key.problem_class},
                               {"n_cols", record.key.n_cols},
                               {"rows_bucket", record.key.rows_bucket},
                               {"device_class", record.key.device_class},
                               {"reason", why}});
  }
}

Json to_json(const BinaryInfo& binary, const std::string& why) {
  return {{"fingerprint", binary.fingerprint},
          {"op", binary.op},
          {"arch", binary.arch},
          {"image_bytes", binary.image_bytes},
          {"reason", why}};
}

void select_binaries(Verdict& verdict, Cache& cache, const std::vector<BinaryInfo>& binaries, CurrentVersion& version,
                     const PruneSettings& settings) {
  const std::int64_t now = static_cast<std::int64_t>(std::time(nullptr));
  for (const BinaryInfo& binary : binaries) {
    std::string why = version.why_unusable(binary, cache.find_source(binary.source_hash));
    if (why.empty() && settings.older_than_days && now - binary.created_unix_s > *settings.older_than_days * seconds_per_day)
      why = "older than " + std::to_string(*settings.older_than_days) + " days";
    if (why.empty()) continue;
    verdict.request.binaries.push_back(binary.fingerprint);
    ++verdict.reasons[{"binaries", why}];
    verdict.binaries.push_back(to_json(binary, why));
  }
}

void add_what_size_cost(Verdict& verdict, const Cache::PruneResult& result, const std::vector<BinaryInfo>& binaries) {
  for (const std::string& fingerprint : result.for_size) {
    const auto binary = std::ranges::find(binaries, fingerprint, &BinaryInfo::fingerprint);
    if (binary == binaries.end()) continue;  // stored after the list was made
    ++verdict.reasons[{"binaries", "size"}];
    verdict.binaries.push_back(to_json(*binary, "size"));
  }
}

Json to_json(const Verdict& verdict, const Cache::PruneResult& result, const CacheInfo& before) {
  const auto counts = [](std::int64_t records, std::int64_t trials, std::int64_t binaries, std::int64_t sources) {
    return Json{{"records", records}, {"trials", trials}, {"binaries", binaries}, {"sources", sources}};
  };
  return {{"cache", before.file.string()},
          {"dry_run", verdict.request.dry_run},
          {"removed", counts(result.records, result.trials, result.binaries, result.sources)},
          {"kept", counts(before.records - result.records, before.trials - result.trials, before.binaries - result.binaries,
                          before.sources - result.sources)},
          {"bytes_before", result.bytes_before},
          {"bytes_after", result.bytes_after},
          {"records", verdict.records},
          {"binaries", verdict.binaries}};
}

std::string to_text(const Verdict& verdict, const Cache::PruneResult& result, const CacheInfo& before) {
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](const char* what, std::int64_t removed, std::int64_t had) {
    std::string why;
    for (const auto& [reason, count] : verdict.reasons)
      if (reason.first == what) why += (why.empty() ? "" : ", ") + reason.second + ": " + std::to_string(count);
    rows.push_back({what, std::to_string(removed), std::to_string(had - removed), why});
  };
  row("records", result.records, before.records);
  row("trials", result.trials, before.trials);
  row("binaries", result.binaries, before.binaries);
  row("sources", result.sources, before.sources);
  return table({{""}, {verdict.request.dry_run ? "would be removed" : "removed", true}, {"kept", true}, {"why"}}, rows) +
         before.file.string() + ": " + bytes_text(static_cast<double>(result.bytes_before)) +
         (verdict.request.dry_run ? ", would be " : ", now ") + bytes_text(static_cast<double>(result.bytes_after)) + "\n";
}

}  // namespace

int prune_cache(const EngineOptions& options, const PruneSettings& settings) {
  EngineOptions own = options;  // shipped records are read-only
  own.system_caches.clear();
  own.shipped_cache.clear();
  const std::shared_ptr<Cache> cache = open_cache(own);
  const CacheInfo before = cache->info();
  const std::vector<BinaryInfo> binaries = cache->list_binaries();
  CurrentVersion version(options);
  Verdict verdict;
  verdict.request.dry_run = settings.dry_run;
  verdict.request.max_file_bytes = settings.max_bytes;
  select_records(verdict, *cache, version);
  select_binaries(verdict, *cache, binaries, version, settings);
  const Cache::PruneResult result = cache->prune(verdict.request);
  add_what_size_cost(verdict, result, binaries);
  if (settings.json)
    std::puts(dump_pretty(to_json(verdict, result, before)).c_str());
  else
    std::fputs(to_text(verdict, result, before).c_str(), stdout);
  return exit_done;
}

}  // namespace tunesmith::cli
