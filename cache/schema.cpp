#include "cache/schema.h"

#include <string>

namespace tunesmith {
namespace {

// UNIQUE lists the columns that find_nearest() fixes first, so that it can use the index.
constexpr const char* version_1 = R"sql(
CREATE TABLE records (
  id INTEGER PRIMARY KEY,
  op TEXT NOT NULL, semantics TEXT NOT NULL, device_class TEXT NOT NULL, template_digest TEXT NOT NULL, policy TEXT NOT NULL,
  n_cols INTEGER NOT NULL, rows_bucket INTEGER NOT NULL,
  config TEXT NOT NULL,
  median_us REAL, mad_us REAL, default_median_us REAL, bytes REAL,
  problem TEXT NOT NULL, effort TEXT NOT NULL,
  provenance TEXT NOT NULL,  -- name=value lines
  created INTEGER NOT NULL,  -- seconds since 1970
  checksum TEXT NOT NULL,
  UNIQUE (op, semantics, device_class, template_digest, policy, n_cols, rows_bucket)
) STRICT;
CREATE TABLE trials (
  record_id INTEGER NOT NULL REFERENCES records (id) ON DELETE CASCADE,
  config TEXT NOT NULL,
  status TEXT NOT NULL, median_us REAL, mad_us REAL, samples INTEGER NOT NULL, reason TEXT NOT NULL,
  checksum TEXT NOT NULL,
  PRIMARY KEY (record_id, config)
) STRICT, WITHOUT ROWID;
CREATE TABLE binaries (
  id INTEGER PRIMARY KEY,
  fingerprint TEXT NOT NULL UNIQUE,
  op TEXT NOT NULL, source_hash TEXT NOT NULL, options TEXT NOT NULL, arch TEXT NOT NULL, toolchain TEXT NOT NULL,
  log TEXT NOT NULL,
  resources TEXT NOT NULL,   -- name=value lines
  created INTEGER NOT NULL,  -- seconds since 1970
  checksum TEXT NOT NULL,
  image BLOB NOT NULL        -- last: the other columns are read without its pages
) STRICT;
CREATE INDEX binaries_by_source ON binaries (source_hash, arch);
CREATE TABLE sources (
  id INTEGER PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE,
  checksum TEXT NOT NULL,
  source TEXT NOT NULL
) STRICT;
)sql";

constexpr const char* version_2 = "ALTER TABLE records RENAME COLUMN semantics TO problem_class;";

constexpr const char* steps_of_this_code[] = {version_1, version_2};

std::int64_t integer(Connection& connection, const char* sql) {
  Query query = connection.query(sql);
  return query.next() ? query.integer(0) : 0;
}

}  // namespace

Migrations migrations() { return steps_of_this_code; }

SchemaCheck check_schema(Connection& connection, Migrations steps) {
  using State = SchemaCheck::State;
  const auto current = static_cast<std::int64_t>(steps.size());
  const std::int64_t application_id = integer(connection, "PRAGMA application_id");
  const std::int64_t version = integer(connection, "PRAGMA user_version");
  if (application_id == cache_application_id) {
    if (version < 1) return {State::damaged, version};
    if (version > current) return {State::newer, version};
    return {version == current ? State::current : State::older, version};
  }
  const bool blank = application_id == 0 && version == 0 && integer(connection, "SELECT count(*) FROM sqlite_schema") == 0;
  return {blank ? State::empty : State::foreign, version};
}

std::string why_not_current(const SchemaCheck& check, Migrations steps) {
  const std::string versions =
      " (schema " + std::to_string(check.version) + ", this one knows " + std::to_string(steps.size()) + ")";
  switch (check.state) {
    case SchemaCheck::State::empty:
    case SchemaCheck::State::current: break;
    case SchemaCheck::State::older: return "was written by an older version of tunesmith" + versions;
    case SchemaCheck::State::newer: return "was written by a later version of tunesmith" + versions;
    case SchemaCheck::State::foreign: return "is a database of another program";
    case SchemaCheck::State::damaged: return "is damaged: its schema version is " + std::to_string(check.version);
  }
  return "";
}

void migrate(Connection& connection, Migrations steps) {
  Transaction transaction(connection);
  const SchemaCheck found = check_schema(connection, steps);
  if (found.state != SchemaCheck::State::empty && found.state != SchemaCheck::State::older) return;
  for (const char* step : steps.subspan(static_cast<std::size_t>(found.version))) connection.execute(step);
  connection.execute("PRAGMA application_id=" + std::to_string(cache_application_id));
  connection.execute("PRAGMA user_version=" + std::to_string(steps.size()));
  transaction.commit();
}

Connection migrated_copy(Connection& older) {
  Connection copy = older.copy_to_memory();
  migrate(copy);
  return copy;
}

}  // namespace tunesmith
