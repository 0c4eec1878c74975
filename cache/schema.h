#pragma once
// The tables, the marks that tell our files from others, and the steps from one version to the next.

#include <cstdint>
#include <span>

#include "cache/connection.h"

namespace tunesmith {

/// "TnSm": in the header of every file of ours (PRAGMA application_id).
inline constexpr std::int64_t cache_application_id = 0x546e536d;

/// Step i is SQL that takes a file from version i to i+1 (PRAGMA user_version); an empty file is version 0.
using Migrations = std::span<const char* const>;

/// The steps of this code; their number is its schema version.
Migrations migrations();

struct SchemaCheck {
  enum class State {
    empty,    ///< no tables: ours to fill
    current,  ///< ours, the version of this code
    older,    ///< ours, can be migrated
    newer,    ///< ours, written by later code: hands off
    foreign,  ///< some other program's database: hands off
    damaged,  ///< ours by its mark, but the version makes no sense
  };
  State state = State::empty;
  std::int64_t version = 0;
};

/// Looks at the marks only. Throws SqliteError (SQLITE_NOTADB for a file that is no database).
SchemaCheck check_schema(Connection& connection, Migrations steps = migrations());

/// Runs the missing steps in one transaction; a file that is current is left alone. Call under the exclusive file lock.
void migrate(Connection& connection, Migrations steps = migrations());

}  // namespace tunesmith
