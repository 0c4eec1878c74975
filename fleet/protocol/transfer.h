#pragma once
// Copies between a host's cache and the server: push, pull, sync, generations.

#include <cstdint>
#include <string>

#include "cache/cache.h"
#include "fleet/remote_url.h"

namespace tunesmith::fleet {

struct PushOptions {
  bool with_binaries = true;  ///< if there is a signing key
  bool replace = false;       ///< overwrite existing values; by default, the first record of a key stays
  std::string generation;     ///< also make the generation of this name; empty: none
};

struct Transferred {
  std::int64_t tunings = 0, binaries = 0;  ///< written or read
  std::int64_t kept = 0;                   ///< push: values that were there before
  std::int64_t refused = 0;                ///< values that are damaged, swapped or not signed by a trusted key
  std::int64_t bytes = 0;                  ///< pull: of the values read
};

// All throw Error(io) if the server cannot be used, and Error(invalid_argument) for a URL that does not allow it. `cache`
// should have no remote store. Not for many threads.

/// Writes the records of the user's file and system files that did not ship with Tunesmith, and the binaries of the user's
/// file. Renews the lifetime of existing values. A generation contains all records that the cache finds, and the digests of
/// the binaries.
Transferred push(const RemoteUrl& url, Cache& cache, const PushOptions& options);

/// Stores the server's records, replacing this host's with the same key, and its binaries, if the URL has keys. With a
/// generation in the URL, only what belongs to it.
Transferred pull(const RemoteUrl& url, Cache& cache);

}  // namespace tunesmith::fleet
