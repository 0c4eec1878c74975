#pragma once
// Shared parts of the functions behind `tunesmith cache`.

#include <cstdint>

#include "cache/layers.h"

namespace tunesmith {

/// Returns the number that a statement selects; `sql` must be a string literal. Throws SqliteError.
std::int64_t count(Connection& connection, const char* sql);

/// Throws Error(cache_failed) if SQLite must not be called (see Layers).
void require_sqlite(const Layers& layers);

/// Reports whether an error concerns the cache itself and not another file that is being written.
bool concerns_the_cache(const SqliteError& error);

/// Releases the space of removed rows (VACUUM). If another process uses the file, the space is not released.
void give_space_back(UserFile& user);

}  // namespace tunesmith
