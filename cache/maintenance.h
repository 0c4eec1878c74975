#pragma once
// What the calls of `tunesmith cache` share.

#include <cstdint>

#include "cache/layers.h"

namespace tunesmith {

/// The number that a statement of one row and one column gives; `sql` must be a string literal. Throws SqliteError.
std::int64_t count(Connection& connection, const char* sql);

/// Throws Error(cache_failed) where SQLite may not be called (see Layers).
void require_sqlite(const Layers& layers);

/// Trouble with a file that is written beside the cache must not be taken for trouble with the cache itself.
bool concerns_the_cache(const SqliteError& error);

/// VACUUM, for rows that were removed. Another process that uses the file may prevent it, which costs nothing but space.
void give_space_back(UserFile& user);

}  // namespace tunesmith
