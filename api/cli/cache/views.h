#pragma once
// The contents of a cache as tables and as JSON.

#include <string>
#include <vector>

#include "api/cli/cache/current_version.h"
#include "api/cli/tuning/tune_child.h"
#include "cache/cache.h"

namespace tunesmith::cli {

std::string info_listing(const CacheInfo& info);
/// "/opt/fleet.db, 12 records, 3 binaries".
std::string system_file_text(const SystemFileInfo& file);
std::string records_table(const std::vector<TuningRecord>& records, CurrentVersion& version);
std::string record_listing(const TuningRecord& record, CurrentVersion& version);
/// Fastest first.
std::string trials_table(std::vector<Trial> trials);

Json to_json(const CacheInfo& info);
Json to_json(const TuningRecord& record, CurrentVersion& version);
Json to_json(const Trial& trial);

}  // namespace tunesmith::cli
