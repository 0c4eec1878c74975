#pragma once
// SQL over tuning records and trials. Every read checks the row's checksum. Throws SqliteError.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cache/cache.h"
#include "cache/connection.h"
#include "cache/row.h"

namespace tunesmith {

Lookup<TuningRecord> read_record(Connection& connection, const TuningKey& key);
/// By configuration text. The row is empty only when a trial is damaged; the healthy ones are then left out too.
Lookup<std::vector<Trial>> read_trials(Connection& connection, const TuningKey& key);
/// Keys that agree with `key` in everything but n_cols and rows_bucket, in no order. Answered from an index alone, so a key
/// may turn out to have no healthy record.
std::vector<TuningKey> keys_like(Connection& connection, const TuningKey& key);

/// Keys that agree with `key` in everything but the template digest, in no order; `key` itself is left out. Each with the
/// time its record was measured.
std::vector<std::pair<TuningKey, std::int64_t>> keys_of_other_templates(Connection& connection, const TuningKey& key);

/// Calls `take` for every record in the order of keys; `healthy` tells whether its checksum matches.
void for_each_record(Connection& connection, const std::function<void(TuningRecord&& record, bool healthy)>& take);

/// Replaces the key's record and upserts the trials. Call inside a transaction.
void write_record(Connection& connection, const TuningRecord& record, const std::vector<Trial>& trials);
/// Adds those trials whose configuration is not there yet, to a record that is. Returns how many.
std::int64_t add_missing_trials(Connection& connection, const TuningKey& key, const std::vector<Trial>& trials);
/// The record and its trials. Returns the rows removed.
std::int64_t erase_record(Connection& connection, const TuningKey& key);
/// The records of an operation (empty: all) and their trials. Returns the rows removed.
std::int64_t erase_records_of(Connection& connection, const std::string& op);
/// Finds records and trials whose checksum does not match and, when asked, removes them. Returns one line for each.
std::vector<std::string> sweep_records(Connection& connection, bool remove);

/// How the key is named in messages.
std::string text(const TuningKey& key);

}  // namespace tunesmith
