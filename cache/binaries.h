#pragma once
// SQL of binaries and sources. Every read verifies the row's checksum. All functions throw SqliteError.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "cache/connection.h"
#include "cache/row.h"

namespace tunesmith {

/// A binary and the time when it was stored, in seconds since 1970.
struct StoredBinary {
  BinaryRecord binary;
  std::int64_t created_unix_s = 0;
};

Lookup<StoredBinary> read_binary(Connection& connection, const std::string& fingerprint);
/// Finds the newest healthy binary of this source for this architecture; `damaged` if a newer one was skipped. Fingerprints
/// start with the key of the source and a hyphen.
Lookup<StoredBinary> read_binary_of_source(Connection& connection, const std::string& source_key, const std::string& arch);
Lookup<std::string> read_source(Connection& connection, const std::string& source_hash);

/// Lists the binaries, ordered by fingerprint. Does not verify checksums, which cover the image.
std::vector<BinaryInfo> list_binaries(Connection& connection);

/// Calls `take` for every binary, ordered by fingerprint.
void for_each_binary(Connection& connection, const std::function<void(StoredBinary&& stored, bool healthy)>& take);
void for_each_source(Connection& connection,
                     const std::function<void(std::string&& hash, std::string&& source, bool healthy)>& take);

void write_binary(Connection& connection, const StoredBinary& stored);
/// Stores a source. Returns 1 if it was missing or different, otherwise 0.
std::int64_t write_source(Connection& connection, const std::string& source_hash, const std::string& source);

/// Removes a binary, and its source if no other binary needs it. Returns the number of rows removed.
std::int64_t erase_binary(Connection& connection, const std::string& fingerprint);
/// Removes the oldest binary, and its source if no other binary needs it. Returns its fingerprint; empty if there is none.
std::string erase_oldest_binary(Connection& connection);
/// Removes the binaries of an operation (empty: all) and unused sources. Returns the number of rows removed.
std::int64_t erase_binaries_of(Connection& connection, const std::string& op);
/// Finds binaries and sources whose checksum does not match, and removes them if `remove` is set. Returns a line for each.
std::vector<std::string> sweep_binaries(Connection& connection, bool remove);

}  // namespace tunesmith
