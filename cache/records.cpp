#include "cache/records.h"

#include <utility>

namespace tunesmith {
namespace {

std::string checksum(const TuningRecord& record) {
  const TuningKey& key = record.key;
  RowDigest digest("record 1");
  digest.add(key.op).add(key.problem_class).add(key.n_cols).add(key.rows_bucket).add(key.device_class);
  digest.add(key.template_digest).add(key.policy).add(record.config);
  digest.add(record.median_us).add(record.mad_us).add(record.default_median_us).add(record.bytes);
  digest.add(record.problem).add(record.effort).add(to_lines(record.provenance)).add(record.created_unix_s);
  return digest.hex();
}

// The checksum includes the key, which detects a trial that damage has moved to another record.
std::string checksum(const TuningKey& key, const Trial& trial) {
  RowDigest digest("trial 1");
  digest.add(key.op).add(key.problem_class).add(key.n_cols).add(key.rows_bucket).add(key.device_class);
  digest.add(key.template_digest).add(key.policy);
  digest.add(trial.config).add(trial.status).add(trial.median_us).add(trial.mad_us).add(std::int64_t{trial.samples});
  digest.add(trial.reason);
  return digest.hex();
}

// Reads a record from the columns that follow the key in the statements below.
TuningRecord record_at(const Query& query, int column) {
  TuningRecord record;
  record.config = query.bytes(column);
  record.median_us = query.real(column + 1);
  record.mad_us = query.real(column + 2);
  record.default_median_us = query.real(column + 3);
  record.bytes = query.real(column + 4);
  record.problem = query.bytes(column + 5);
  record.effort = query.bytes(column + 6);
  record.provenance = from_lines(query.bytes(column + 7));
  record.created_unix_s = query.integer(column + 8);
  return record;
}

TuningKey key_at(const Query& query, int column) {
  TuningKey key;
  key.op = query.bytes(column);
  key.problem_class = query.bytes(column + 1);
  key.device_class = query.bytes(column + 2);
  key.template_digest = query.bytes(column + 3);
  key.policy = query.bytes(column + 4);
  key.n_cols = query.integer(column + 5);
  key.rows_bucket = query.integer(column + 6);
  return key;
}

Trial trial_at(const Query& query, int column) {
  Trial trial;
  trial.config = query.bytes(column);
  trial.status = query.bytes(column + 1);
  trial.median_us = query.real(column + 2);
  trial.mad_us = query.real(column + 3);
  trial.samples = static_cast<int>(query.integer(column + 4));
  trial.reason = query.bytes(column + 5);
  return trial;
}

Query query_with_key(Connection& connection, const char* sql, const TuningKey& key) {
  return connection.query(sql, key.op, key.problem_class, key.device_class, key.template_digest, key.policy, key.n_cols,
                          key.rows_bucket);
}

std::int64_t record_id(Connection& connection, const TuningKey& key) {
  Query query = query_with_key(connection, R"sql(SELECT id FROM records WHERE op=?1 AND problem_class=?2 AND device_class=?3
    AND template_digest=?4 AND policy=?5 AND n_cols=?6 AND rows_bucket=?7)sql",
                               key);
  return query.next() ? query.integer(0) : 0;
}

std::int64_t insert_trial(Connection& connection, const char* sql, std::int64_t id, const TuningKey& key,
                          const Trial& trial) {
  connection
      .query(sql, id, trial.config, trial.status, trial.median_us, trial.mad_us, trial.samples, trial.reason,
             checksum(key, trial))
      .run();
  return connection.changes();
}

}  // namespace

Lookup<TuningRecord> read_record(Connection& connection, const TuningKey& key) {
  Query query = query_with_key(connection, R"sql(SELECT config, median_us, mad_us, default_median_us, bytes, problem, effort,
    provenance, created, checksum FROM records WHERE op=?1 AND problem_class=?2 AND device_class=?3 AND template_digest=?4
    AND policy=?5 AND n_cols=?6 AND rows_bucket=?7)sql",
                               key);
  if (!query.next()) return {};
  TuningRecord record = record_at(query, 0);
  record.key = key;
  if (query.bytes(9) != checksum(record)) return {std::nullopt, true};
  return {std::move(record), false};
}

Lookup<std::vector<Trial>> read_trials(Connection& connection, const TuningKey& key) {
  Query query = query_with_key(connection, R"sql(SELECT t.config, t.status, t.median_us, t.mad_us, t.samples, t.reason,
    t.checksum FROM trials t JOIN records r ON t.record_id = r.id WHERE r.op=?1 AND r.problem_class=?2 AND r.device_class=?3
    AND r.template_digest=?4 AND r.policy=?5 AND r.n_cols=?6 AND r.rows_bucket=?7 ORDER BY t.config)sql",
                               key);
  std::vector<Trial> trials;
  while (query.next()) {
    trials.push_back(trial_at(query, 0));
    if (query.bytes(6) != checksum(key, trials.back())) return {std::nullopt, true};
  }
  return {std::move(trials), false};
}

std::vector<TuningKey> keys_like(Connection& connection, const TuningKey& key) {
  Query query = connection.query(R"sql(SELECT n_cols, rows_bucket FROM records WHERE op=?1 AND problem_class=?2
    AND device_class=?3 AND template_digest=?4 AND policy=?5)sql",
                                 key.op, key.problem_class, key.device_class, key.template_digest, key.policy);
  std::vector<TuningKey> keys;
  while (query.next()) {
    keys.push_back(key);
    keys.back().n_cols = query.integer(0);
    keys.back().rows_bucket = query.integer(1);
  }
  return keys;
}

std::vector<std::pair<TuningKey, std::int64_t>> keys_of_other_templates(Connection& connection, const TuningKey& key) {
  // The index on keys finds the operation's records on this kind of device: a few hundred at most.
  Query query = connection.query(R"sql(SELECT template_digest, created FROM records WHERE op=?1 AND problem_class=?2
    AND device_class=?3 AND template_digest<>?4 AND policy=?5 AND n_cols=?6 AND rows_bucket=?7)sql",
                                 key.op, key.problem_class, key.device_class, key.template_digest, key.policy, key.n_cols,
                                 key.rows_bucket);
  std::vector<std::pair<TuningKey, std::int64_t>> keys;
  while (query.next()) {
    keys.emplace_back(key, query.integer(1));
    keys.back().first.template_digest = query.bytes(0);
  }
  return keys;
}

std::set<std::int64_t> n_cols_like(Connection& connection, const TuningKey& key) {
  Query query = connection.query(R"sql(SELECT DISTINCT n_cols FROM records WHERE op=?1 AND problem_class=?2
    AND device_class=?3 AND policy=?4)sql",
                                 key.op, key.problem_class, key.device_class, key.policy);
  std::set<std::int64_t> all;
  while (query.next()) all.insert(query.integer(0));
  return all;
}

void for_each_record(Connection& connection, const std::function<void(TuningRecord&&, bool)>& take) {
  Query query = connection.query(R"sql(SELECT op, problem_class, device_class, template_digest, policy, n_cols, rows_bucket,
    config, median_us, mad_us, default_median_us, bytes, problem, effort, provenance, created, checksum FROM records
    ORDER BY op, problem_class, device_class, template_digest, policy, n_cols, rows_bucket)sql");
  while (query.next()) {
    TuningRecord record = record_at(query, 7);
    record.key = key_at(query, 0);
    const bool healthy = query.bytes(16) == checksum(record);
    take(std::move(record), healthy);
  }
}

void write_record(Connection& connection, const TuningRecord& record, const std::vector<Trial>& trials) {
  const TuningKey& key = record.key;
  connection
      .query(
          R"sql(INSERT INTO records (op, problem_class, device_class, template_digest, policy, n_cols, rows_bucket, config,
        median_us, mad_us, default_median_us, bytes, problem, effort, provenance, created, checksum)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
        ON CONFLICT (op, problem_class, device_class, template_digest, policy, n_cols, rows_bucket) DO UPDATE SET
        config=excluded.config, median_us=excluded.median_us, mad_us=excluded.mad_us,
        default_median_us=excluded.default_median_us, bytes=excluded.bytes, problem=excluded.problem,
        effort=excluded.effort, provenance=excluded.provenance, created=excluded.created, checksum=excluded.checksum)sql",
          key.op, key.problem_class, key.device_class, key.template_digest, key.policy, key.n_cols, key.rows_bucket,
          record.config, record.median_us, record.mad_us, record.default_median_us, record.bytes, record.problem,
          record.effort, to_lines(record.provenance), record.created_unix_s, checksum(record))
      .run();
  const std::int64_t id = record_id(connection, key);
  for (const Trial& trial : trials) {
    insert_trial(connection, R"sql(INSERT INTO trials (record_id, config, status, median_us, mad_us, samples, reason,
      checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (record_id, config) DO UPDATE SET
      status=excluded.status, median_us=excluded.median_us, mad_us=excluded.mad_us, samples=excluded.samples,
      reason=excluded.reason, checksum=excluded.checksum)sql",
                 id, key, trial);
  }
}

std::int64_t add_missing_trials(Connection& connection, const TuningKey& key, const std::vector<Trial>& trials) {
  const std::int64_t id = record_id(connection, key);
  std::int64_t added = 0;
  for (const Trial& trial : trials) {
    added += insert_trial(connection, R"sql(INSERT INTO trials (record_id, config, status, median_us, mad_us, samples,
      reason, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (record_id, config) DO NOTHING)sql",
                          id, key, trial);
  }
  return added;
}

std::int64_t erase_record(Connection& connection, const TuningKey& key) {
  const std::int64_t id = record_id(connection, key);
  if (id == 0) return 0;
  connection.query("DELETE FROM trials WHERE record_id=?1", id).run();
  const std::int64_t trials = connection.changes();
  connection.query("DELETE FROM records WHERE id=?1", id).run();
  return trials + connection.changes();
}

std::int64_t erase_records_of(Connection& connection, const std::string& op) {
  // Removes trials explicitly, because SQLite does not count rows that a cascade removes.
  connection.query("DELETE FROM trials WHERE ?1='' OR record_id IN (SELECT id FROM records WHERE op=?1)", op).run();
  const std::int64_t trials = connection.changes();
  connection.query("DELETE FROM records WHERE ?1='' OR op=?1", op).run();
  return trials + connection.changes();
}

std::vector<std::string> sweep_records(Connection& connection, bool remove) {
  std::vector<std::string> problems;
  // NOT INDEXED, because the index may be damaged.
  std::vector<std::int64_t> records;
  {
    Query query =
        connection.query(R"sql(SELECT op, problem_class, device_class, template_digest, policy, n_cols, rows_bucket,
      config, median_us, mad_us, default_median_us, bytes, problem, effort, provenance, created, checksum, id
      FROM records NOT INDEXED)sql");
    while (query.next()) {
      TuningRecord record = record_at(query, 7);
      record.key = key_at(query, 0);
      if (query.bytes(16) == checksum(record)) continue;
      records.push_back(query.integer(17));
      problems.push_back("record '" + text(record.key) + "' fails its checksum");
    }
  }
  if (!remove) records.clear();
  for (const std::int64_t id : records) connection.query("DELETE FROM records WHERE id=?1", id).run();

  std::vector<std::pair<std::int64_t, std::string>> trials;
  {
    Query query = connection.query(R"sql(SELECT r.op, r.problem_class, r.device_class, r.template_digest, r.policy, r.n_cols,
      r.rows_bucket, t.config, t.status, t.median_us, t.mad_us, t.samples, t.reason, t.checksum, t.record_id
      FROM trials t LEFT JOIN records r ON t.record_id = r.id)sql");
    while (query.next()) {
      const TuningKey key = key_at(query, 0);
      const Trial trial = trial_at(query, 7);
      if (query.bytes(13) == checksum(key, trial)) continue;
      trials.emplace_back(query.integer(14), trial.config);
      problems.push_back("trial '" + trial.config + "' of record '" + text(key) + "' fails its checksum");
    }
  }
  if (!remove) trials.clear();
  for (const auto& [id, config] : trials) {
    connection.query("DELETE FROM trials WHERE record_id=?1 AND config=?2", id, config).run();
  }
  return problems;
}

std::string text(const TuningKey& key) {
  return key.op + " " + key.problem_class + " n_cols=" + std::to_string(key.n_cols) +
         " rows_bucket=" + std::to_string(key.rows_bucket) + " on " + key.device_class;
}

}  // namespace tunesmith
