#pragma once
// The persistent cache: tuning records, every trial, binaries, sources, in one SQLite file. All SQL is in this folder.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tunesmith/error.h"
#include "tunesmith/types.h"

namespace tunesmith {

/// Identity of a tuning result. Driver, clocks and power are not in it: they are provenance.
struct TuningKey {
  std::string op;
  std::string semantics;  ///< dtypes, options, alignment and stride classes
  std::int64_t n_cols = 0;
  std::int64_t rows_bucket = 0;
  std::string device_class;     ///< DeviceInfo::device_class()
  std::string template_digest;  ///< device code the candidates were rendered from
  std::string policy;           ///< how it was measured, e.g. "events,l2-flushed,v1"
  auto operator<=>(const TuningKey&) const = default;
};

/// A candidate that was looked at: kept one row each, so that a new candidate does not re-tune the others.
struct Trial {
  std::string config;    ///< Config::text()
  std::string status;    ///< "timed", "dropped", "wrong", "compile_failed", "launch_failed", "rejected"
  double median_us = 0;  ///< 0 unless timed or dropped
  double mad_us = 0;     ///< median absolute deviation
  int samples = 0;
  std::string reason;  ///< why not timed, one line
};

struct TuningRecord {
  TuningKey key;
  std::string config;  ///< the winner
  double median_us = 0, mad_us = 0;
  double default_median_us = 0;                   ///< the default configuration in the same run
  double bytes = 0;                               ///< least traffic of the measured problem; 0: not known
  std::string problem;                            ///< the exact problem measured, Problem::text()
  std::string effort;                             ///< "quick" or "full"
  std::map<std::string, std::string> provenance;  ///< driver, clocks, NVRTC, tunesmith version, host time
  std::int64_t created_unix_s = 0;
  bool shipped = false;  ///< came from a system (read-only) cache
};

struct BinaryRecord {
  std::string fingerprint;  ///< binary_fingerprint(): key of the source, a hyphen, key of the toolchain
  std::string source_hash;  ///< of the text that was compiled
  std::string options, arch, toolchain;
  std::string image, log;
  std::map<std::string, std::string> resources;  ///< entry name -> "registers=32,static_smem_bytes=0,..."
  std::string op;                                ///< for Filter::op; empty: only a clear() of everything removes it
};

/// A binary without its image and log, and the text it was compiled from.
struct BinaryInfo {
  std::string fingerprint, source_hash, arch, toolchain, op;
  std::int64_t image_bytes = 0;
  std::int64_t created_unix_s = 0;
};

/// A read-only file that is looked at after the user's.
struct SystemFileInfo {
  std::filesystem::path file;
  std::int64_t records = 0, binaries = 0;
  std::string ignored;  ///< why the file is not used; empty: it is
};

struct CacheInfo {
  std::filesystem::path file;  ///< empty: memory only
  bool writable = false;
  std::string why_not_writable;
  std::int64_t file_bytes = 0;
  std::int64_t records = 0, trials = 0, binaries = 0, sources = 0, binary_bytes = 0;
  int schema = 0;
  std::string sqlite_version, journal_mode;
  bool network_file_system = false;
  std::vector<SystemFileInfo> system_files;
};

struct CacheOptions {
  /// The user's file; created with its folder on the first write. Empty: nothing persists.
  std::filesystem::path file;
  /// Read-only files, looked at in order after the user's file.
  std::vector<std::filesystem::path> system_files;
  /// Told once about each thing that degrades the cache. May be empty.
  std::function<void(const std::string&)> warn;
  /// How long a lookup or write waits for another process, milliseconds.
  int busy_timeout_ms = 5000;
};

/// Thread-safe; several processes may share a file. Lookups and stores never throw for a sick, locked, full, read-only or
/// foreign file: they warn once and behave like a miss or do nothing. Only the maintenance calls throw Error(cache_failed).
class Cache {
 public:
  explicit Cache(CacheOptions options);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  std::optional<TuningRecord> find_record(const TuningKey& key);
  /// Records that agree in everything but n_cols and rows_bucket, nearest first: by |log(n_cols ratio)|, then by
  /// |log(rows_bucket ratio)|. The exact key is among them when it is there.
  std::vector<TuningRecord> find_nearest(const TuningKey& key, int limit);
  /// Records that agree in everything but the template digest, newest first.
  std::vector<TuningRecord> find_older(const TuningKey& key, int limit);
  std::vector<Trial> find_trials(const TuningKey& key);
  /// Replaces the key's record and upserts its trials, in one transaction.
  void store_record(const TuningRecord& record, const std::vector<Trial>& trials);

  std::optional<BinaryRecord> find_binary(const std::string& fingerprint);
  /// For machines without a compiler: the newest binary of this source for this arch by any toolchain. `source_key` is what
  /// fingerprints start with.
  std::optional<BinaryRecord> find_binary_of_source(const std::string& source_key, const std::string& arch);
  /// Also keeps the source text (once per source_hash).
  void store_binary(const BinaryRecord& binary, const std::string& source);
  std::optional<std::string> find_source(const std::string& source_hash);

  CacheInfo info();
  std::vector<TuningRecord> list_records();
  /// Quick check plus every row's checksum. Returns the problems found (empty: healthy); removes rows that fail.
  std::vector<std::string> verify();
  struct Filter {
    std::string op;              ///< empty: all
    bool binaries_only = false;  ///< keep tuning records
  };
  /// Returns the number of rows removed.
  std::int64_t clear(const Filter& filter);
  /// Writes a compact copy (VACUUM INTO) fit to be a system cache. Throws Error(cache_failed) when `to` exists.
  void export_to(const std::filesystem::path& to, bool with_binaries);
  /// Copies what `from` has and this file lacks (or has older). Returns the number of rows taken.
  std::int64_t import_from(const std::filesystem::path& from);
  /// The same for records that came from elsewhere, in one transaction.
  std::int64_t import_records(const std::vector<TuningRecord>& records);

  /// The user's binaries in the order of fingerprints; checksums are not looked at.
  std::vector<BinaryInfo> list_binaries();
  /// What shall go. Who calls it decides: what a version can still use is not known here.
  struct PruneRequest {
    std::vector<TuningKey> records;     ///< with their trials
    std::vector<std::string> binaries;  ///< fingerprints
    /// After these, the oldest binaries go until the file is no larger, or none is left. Empty: no limit.
    std::optional<std::int64_t> max_file_bytes;
    bool dry_run = false;  ///< remove nothing, say what would go
  };
  struct PruneResult {
    std::int64_t records = 0, trials = 0, binaries = 0, sources = 0;  ///< rows removed
    std::vector<std::string> for_size;                                ///< fingerprints that max_file_bytes cost
    std::int64_t bytes_before = 0, bytes_after = 0;                   ///< of the file; of a dry run: what it would be
  };
  /// One transaction on the user's file; sources that no binary needs any more go too, and the space is given back.
  PruneResult prune(const PruneRequest& request);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tunesmith
