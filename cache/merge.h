#pragma once
// Copying rows from one cache to another.

#include <cstdint>
#include <string>

#include "cache/connection.h"

namespace tunesmith {

/// Copies the healthy rows that `to` lacks or has older. Returns how many were taken. Call inside a transaction on `to`.
/// Throws SqliteError for trouble with `to`, Error(cache_failed) that names `from_name` for trouble with `from`: the two
/// must not be mixed up, or a bad import would condemn a good file.
std::int64_t merge(Connection& to, Connection& from, const std::string& from_name);

}  // namespace tunesmith
