#pragma once
// The tables, the marks that identify a Tunesmith cache, and the migrations between versions.

#include <cstdint>
#include <span>
#include <string>

#include "cache/connection.h"

namespace tunesmith {

/// "TnSm", the application id in the header of every cache file (PRAGMA application_id).
inline constexpr std::int64_t cache_application_id = 0x546e536d;

/// SQL of the migrations: step i takes a file from version i to i+1 (PRAGMA user_version). An empty file has version 0.
using Migrations = std::span<const char* const>;

/// Returns the migrations of this code; their number is its schema version.
Migrations migrations();

struct SchemaCheck {
  enum class State {
    empty,    ///< no tables yet
    current,  ///< a cache of this version
    older,    ///< a cache of an older version, can be migrated
    newer,    ///< a cache of a later version; must not be changed
    foreign,  ///< a database of another program; must not be changed
    damaged,  ///< marked as a cache, but its version is invalid
  };
  State state = State::empty;
  std::int64_t version = 0;
};

/// Checks the application id and the version. Throws SqliteError (SQLITE_NOTADB if the file is not a database).
SchemaCheck check_schema(Connection& connection, Migrations steps = migrations());

/// Returns why a file in this state is not used as it is, as a predicate: "is a database of another program". Empty for a
/// current or an empty file.
std::string why_not_current(const SchemaCheck& check, Migrations steps = migrations());

/// Runs the missing migrations in one transaction; does nothing if there are none. Call it with the exclusive file lock.
void migrate(Connection& connection, Migrations steps = migrations());

/// Returns a copy of an older file in memory, migrated; the file does not change.
Connection migrated_copy(Connection& older);

}  // namespace tunesmith
