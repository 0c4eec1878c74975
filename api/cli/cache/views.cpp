#include "api/cli/cache/views.h"

#include <algorithm>

#include "api/cli/cache/recorded.h"
#include "api/cli/report/run_report.h"
#include "api/cli/report/table.h"
#include "tunesmith/error.h"
#include "tunesmith/problem.h"

namespace tunesmith::cli {
namespace {

/// A recorded problem, shortened.
std::string readable(const std::string& problem) {
  const std::size_t end = problem.find(' ');
  if (end == std::string::npos) return problem;
  try {
    return Problem{problem.substr(0, end), parse_fields(problem.substr(end + 1), "recorded problem")}.short_text();
  } catch (const Error&) {  // written by another version
    return problem;
  }
}

std::string use_text(const std::string& use) {
  if (use == name(Origin::exact)) return "exact: of these templates";
  if (use == name(Origin::older))
    return "older: of earlier templates; used until mode tune or `tunesmith tune` measures again";
  return "none: " + use;
}

std::string throughput(const TuningRecord& record) {
  if (record.median_us <= 0 || record.bytes <= 0) return {};
  const std::string traffic = fixed(record.bytes / record.median_us * 1e-3, 0) + " GB/s";
  try {
    const Cost cost = recorded_problem(record)->cost();
    if (is_compute_bound(cost) && cost.overcounted.empty())
      return fixed(cost.flops / record.median_us * 1e-6, 1) + " TFLOP/s, " + traffic;
  } catch (const Error&) {  // written by another version, whose problems may be unknown
  }
  return traffic;
}

double speedup(const TuningRecord& record) { return record.median_us > 0 ? record.default_median_us / record.median_us : 0; }

}  // namespace

std::string info_listing(const CacheInfo& info) {
  std::vector<std::pair<std::string, std::string>> rows{
      {"file", info.file.empty() ? "none: memory only" : info.file.string()},
      {"size", bytes_text(static_cast<double>(info.file_bytes))},
      {"writable", info.writable ? "yes" : "no: " + info.why_not_writable},
      {"records", std::to_string(info.records) + " with " + std::to_string(info.trials) + " trials"},
      {"binaries", std::to_string(info.binaries) + ", " + bytes_text(static_cast<double>(info.binary_bytes))},
      {"sources", std::to_string(info.sources)},
      {"schema", std::to_string(info.schema)},
      {"SQLite", info.sqlite_version + ", journal " + info.journal_mode},
      {"binaries not loaded", info.why_not_private},
      {"file system", info.network_file_system ? "over a network: locking may not be reliable" : ""},
  };
  for (const SystemFileInfo& file : info.system_files) rows.emplace_back("system cache", system_file_text(file));
  return listing(rows);
}

std::string system_file_text(const SystemFileInfo& file) {
  if (!file.ignored.empty()) return file.file.string() + ", ignored: " + file.ignored;
  return file.file.string() + ", " + std::to_string(file.records) + " records, " + std::to_string(file.binaries) +
         " binaries";
}

std::string records_table(const std::vector<TuningRecord>& records, CurrentVersion& version) {
  std::vector<std::vector<std::string>> rows;
  for (const TuningRecord& record : records)
    rows.push_back({std::to_string(rows.size() + 1), record.key.op, std::to_string(record.key.n_cols),
                    std::to_string(record.key.rows_bucket), record.key.problem_class, fixed(record.median_us, 2),
                    times(speedup(record)), record.key.device_class.substr(0, record.key.device_class.find(';')),
                    record.shipped ? "system" : "user", version.use_of(record), record.config});
  return table({{"#", true},
                {"op"},
                {"n_cols", true},
                {"rows up to", true},
                {"problem_class"},
                {"median us", true},
                {"over default", true},
                {"device"},
                {"from"},
                {"use"},
                {"config"}},
               rows);
}

std::string record_listing(const TuningRecord& record, CurrentVersion& version) {
  std::vector<std::pair<std::string, std::string>> rows{
      {"operation", record.key.op},
      {"problem", readable(record.problem)},
      {"key", "n_cols=" + std::to_string(record.key.n_cols) + ",rows_bucket=" + std::to_string(record.key.rows_bucket) +
                  "," + record.key.problem_class},
      {"device class", record.key.device_class},
      {"config", record.config},
      {"time", microseconds(record.median_us) + " (MAD " + microseconds(record.mad_us) + ")"},
      {"throughput", throughput(record)},
      {"default", microseconds(record.default_median_us) + ": the winner is " + times(speedup(record))},
      {"effort", record.effort},
      {"policy", record.key.policy},
      {"templates", record.key.template_digest},
      {"use", use_text(version.use_of(record))},
      {"measured", date_text(record.created_unix_s)},
      {"from", record.shipped ? "a system cache" : "the user's cache"},
  };
  for (const auto& [name, value] : record.provenance) rows.emplace_back(name, value);
  return listing(rows);
}

std::string trials_table(std::vector<Trial> trials) {
  if (trials.empty()) return "no trials: records that ship, and records imported from JSON lines, have none\n";
  std::ranges::stable_sort(trials, {},
                           [](const Trial& trial) { return std::pair(trial.status != "timed", trial.median_us); });
  std::vector<std::vector<std::string>> rows;
  for (const Trial& trial : trials)
    rows.push_back({trial.samples > 0 ? fixed(trial.median_us, 2) : "-", trial.samples > 0 ? fixed(trial.mad_us, 2) : "-",
                    std::to_string(trial.samples), trial.status, trial.config, trial.reason});
  return table({{"median us", true}, {"MAD us", true}, {"samples", true}, {"status"}, {"config"}, {"why"}}, rows);
}

Json to_json(const CacheInfo& info) {
  Json files = Json::array();
  for (const SystemFileInfo& file : info.system_files)
    files.push_back(
        {{"file", file.file.string()}, {"records", file.records}, {"binaries", file.binaries}, {"ignored", file.ignored}});
  return {{"file", info.file.string()},
          {"writable", info.writable},
          {"why_not_writable", info.why_not_writable},
          {"file_bytes", info.file_bytes},
          {"records", info.records},
          {"trials", info.trials},
          {"binaries", info.binaries},
          {"binary_bytes", info.binary_bytes},
          {"sources", info.sources},
          {"schema", info.schema},
          {"sqlite_version", info.sqlite_version},
          {"journal_mode", info.journal_mode},
          {"network_file_system", info.network_file_system},
          {"why_not_private", info.why_not_private},
          {"system_files", files}};
}

Json to_json(const TuningRecord& record, CurrentVersion& version) {
  return {{"op", record.key.op},
          {"problem", record.problem},
          {"problem_class", record.key.problem_class},
          {"n_cols", record.key.n_cols},
          {"rows_bucket", record.key.rows_bucket},
          {"device_class", record.key.device_class},
          {"template_digest", record.key.template_digest},
          {"use", version.use_of(record)},
          {"policy", record.key.policy},
          {"config", record.config},
          {"median_us", record.median_us},
          {"mad_us", record.mad_us},
          {"default_median_us", record.default_median_us},
          {"bytes", record.bytes},
          {"effort", record.effort},
          {"created_unix_s", record.created_unix_s},
          {"shipped", record.shipped},
          {"provenance", record.provenance}};
}

Json to_json(const Trial& trial) {
  return {{"config", trial.config}, {"status", trial.status},   {"median_us", trial.median_us},
          {"mad_us", trial.mad_us}, {"samples", trial.samples}, {"reason", trial.reason}};
}

}  // namespace tunesmith::cli
