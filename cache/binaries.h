#pragma once
// SQL over binaries and sources. Every read checks the row's checksum. Throws SqliteError.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "cache/connection.h"
#include "cache/row.h"

namespace tunesmith {

/// A binary with the time it was stored, seconds since 1970.
struct StoredBinary {
  BinaryRecord binary;
  std::int64_t created_unix_s = 0;
};

Lookup<StoredBinary> read_binary(Connection& connection, const std::string& fingerprint);
/// The newest healthy binary of this source for this architecture; `damaged` when a newer one had to be passed over.
/// Fingerprints start with the key of the source and a hyphen.
Lookup<StoredBinary> read_binary_of_source(Connection& connection, const std::string& source_key, const std::string& arch);
Lookup<std::string> read_source(Connection& connection, const std::string& source_hash);

/// In the order of fingerprints; checksums, which cover the image, are not looked at.
std::vector<BinaryInfo> list_binaries(Connection& connection);

/// In the order of fingerprints.
void for_each_binary(Connection& connection, const std::function<void(StoredBinary&& stored, bool healthy)>& take);
void for_each_source(Connection& connection,
                     const std::function<void(std::string&& hash, std::string&& source, bool healthy)>& take);

void write_binary(Connection& connection, const StoredBinary& stored);
/// Returns 1 when the text was not there (or not the same), else 0.
std::int64_t write_source(Connection& connection, const std::string& source_hash, const std::string& source);

/// One binary, and its source when no other binary needs it. Returns the rows removed.
std::int64_t erase_binary(Connection& connection, const std::string& fingerprint);
/// The binary that was stored first, and its source likewise. Returns its fingerprint; empty when there is none.
std::string erase_oldest_binary(Connection& connection);
/// The binaries of an operation (empty: all) and the sources that no binary needs any more. Returns the rows removed.
std::int64_t erase_binaries_of(Connection& connection, const std::string& op);
/// Finds binaries and sources whose checksum does not match and, when asked, removes them. Returns one line for each.
std::vector<std::string> sweep_binaries(Connection& connection, bool remove);

}  // namespace tunesmith
