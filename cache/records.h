#pragma once
// SQL of tuning records and trials. Every read verifies the row's checksum. All functions throw SqliteError.

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cache/cache.h"
#include "cache/connection.h"
#include "cache/row.h"

namespace tunesmith {

Lookup<TuningRecord> read_record(Connection& connection, const TuningKey& key);
/// Reads the trials of a record, ordered by configuration. If a trial is damaged, returns none of them.
Lookup<std::vector<Trial>> read_trials(Connection& connection, const TuningKey& key);
/// Finds the keys that differ from `key` only in n_cols and rows_bucket, in no order. Uses only an index, so a key may have
/// no healthy record.
std::vector<TuningKey> keys_like(Connection& connection, const TuningKey& key);

/// Finds the keys that differ from `key` only in the template digest, in no order, each with the time of its record.
/// Excludes `key` itself.
std::vector<std::pair<TuningKey, std::int64_t>> keys_of_other_templates(Connection& connection, const TuningKey& key);

/// Finds the n_cols of the keys that differ from `key` only in n_cols, rows_bucket and the template digest.
std::set<std::int64_t> n_cols_like(Connection& connection, const TuningKey& key);

/// Calls `take` for every record, ordered by key; `healthy` is set if its checksum matches.
void for_each_record(Connection& connection, const std::function<void(TuningRecord&& record, bool healthy)>& take);

/// Replaces the key's record and upserts the trials. Call inside a transaction.
void write_record(Connection& connection, const TuningRecord& record, const std::vector<Trial>& trials);
/// Adds the trials whose configuration is missing to an existing record. Returns the number of trials added.
std::int64_t add_missing_trials(Connection& connection, const TuningKey& key, const std::vector<Trial>& trials);
/// Removes the record and its trials. Returns the number of rows removed.
std::int64_t erase_record(Connection& connection, const TuningKey& key);
/// Removes the records of an operation (empty: all) and their trials. Returns the number of rows removed.
std::int64_t erase_records_of(Connection& connection, const std::string& op);
/// Finds records and trials whose checksum does not match, and removes them if `remove` is set. Returns a line for each.
std::vector<std::string> sweep_records(Connection& connection, bool remove);

/// Describes the key in messages.
std::string text(const TuningKey& key);

}  // namespace tunesmith
