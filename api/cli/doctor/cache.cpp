// The cache: the user's file, the system's, and the records that ship with the library.

#include <cstdlib>
#include <map>

#include "api/cli/arguments/flags.h"
#include "api/cli/cache/current_version.h"
#include "api/cli/cache/views.h"
#include "api/cli/doctor/advice.h"
#include "api/cli/doctor/findings.h"
#include "api/cli/report/table.h"
#include "api/engine/parts.h"

namespace tunesmith::cli {

Finding look_at_cache(const EngineOptions& options) {
  const CacheFileFacts file = examine_cache_file(options.cache_file);
  using State = CacheFileFacts::State;
  const bool is_usable = file.state == State::current || file.state == State::absent;
  EngineOptions looked_at = options;
  // Using the file would change it: a damaged one is moved aside, an older one migrated.
  if (!is_usable) looked_at.cache_file.clear();
  const std::shared_ptr<Cache> cache = open_cache(looked_at);
  Finding finding;
  std::vector<std::string> damage;
  try {
    if (file.state == State::current) damage = cache->verify();
  } catch (const Error& error) {
    damage = {error.what()};
  }
  CacheInfo info = cache->info();
  if (!is_usable) {
    info.file = options.cache_file;
    info.schema = file.schema;
    info.writable = file.state == State::older;
    info.why_not_writable = info.writable ? "" : info.file.string() + " " + file.reason;
  }
  finding.facts = to_json(info);
  finding.diagnoses = cache_diagnoses(file, info, damage);
  if (options.cache_file.empty() && std::getenv("TUNESMITH_CACHE") == nullptr)
    finding.diagnoses.push_back({"HOME is not set, so that the cache has no place: every process compiles and tunes again",
                                 "export TUNESMITH_CACHE=FILE"});
  const bool is_healthy = damage.empty() && (is_usable || file.state == State::older);
  if (!is_healthy && damage.empty()) damage = {info.file.string() + " " + file.reason};
  finding.facts["healthy"] = is_healthy;
  finding.facts["problems"] = damage;
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
  if (file.state == State::older) finding.lines.emplace_back("  schema", file.reason + "; the next use migrates it");
  finding.lines.emplace_back("  health", damage.empty() ? "good" : damage.front());
  // The shipped cache has its own finding.
  for (const SystemFileInfo& system : info.system_files) {
    if (system.file == options.shipped_cache) continue;
    finding.lines.emplace_back("  system cache", system_file_text(system));
    if (!system.ignored.empty())
      finding.diagnoses.push_back({"the system cache " + system.file.string() + " is ignored: " + system.ignored,
                                   "export it again with this version (tunesmith cache export), or take it out of "
                                   "TUNESMITH_SYSTEM_CACHE"});
  }
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

}  // namespace tunesmith::cli
