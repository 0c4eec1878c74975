#pragma once
// Copies rows from one cache to another.

#include <cstdint>
#include <string>

#include "cache/connection.h"

namespace tunesmith {

/// Copies the healthy rows that `to` lacks or has in an older version; returns their number. Without `with_code`, copies
/// tuning records and trials only. Call inside a transaction on `to`. Throws SqliteError for an error of `to` and
/// Error(cache_failed) with `from_name` for an error of `from`, so that a damaged import does not make the cache appear
/// damaged.
std::int64_t merge(Connection& to, Connection& from, const std::string& from_name, bool with_code);

}  // namespace tunesmith
