#pragma once
// The persistent cache: tuning records, trials, binaries and sources in one SQLite file. All SQL is in this folder.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cache/work_claim.h"
#include "tunesmith/error.h"
#include "tunesmith/types.h"

namespace tunesmith {

/// Key of a tuning result. Driver, clocks and power limit are not part of it; they are provenance.
struct TuningKey {
  std::string op;
  std::string problem_class;  ///< dtypes, options, alignment and stride classes
  std::int64_t n_cols = 0;
  std::int64_t rows_bucket = 0;
  std::string device_class;     ///< DeviceInfo::device_class()
  std::string template_digest;  ///< device code the candidates were rendered from
  std::string policy;           ///< method of measurement, e.g. "events,l2-flushed,v1"
  auto operator<=>(const TuningKey&) const = default;
};

/// The result of one candidate. Each has its own row, so that a new candidate does not require tuning the others again.
struct Trial {
  std::string config;    ///< Config::text()
  std::string status;    ///< "timed", "dropped", "wrong", "compile_failed", "launch_failed", "rejected"
  double median_us = 0;  ///< 0 unless timed or dropped
  double mad_us = 0;     ///< median absolute deviation
  int samples = 0;
  std::string reason;  ///< why it was not timed, one line
};

struct TuningRecord {
  TuningKey key;
  std::string config;  ///< the fastest configuration
  double median_us = 0, mad_us = 0;
  double default_median_us = 0;                   ///< time of the default configuration in the same run
  double bytes = 0;                               ///< minimum memory traffic of the measured problem; 0: unknown
  std::string problem;                            ///< the exact problem measured, Problem::text()
  std::string effort;                             ///< "quick" or "full"
  std::map<std::string, std::string> provenance;  ///< driver, clocks, NVRTC, tunesmith version, host time
  std::int64_t created_unix_s = 0;
  bool shipped = false;  ///< from a read-only system cache
};

struct BinaryRecord {
  std::string fingerprint;  ///< binary_fingerprint(): key of the source, a hyphen, key of the toolchain
  std::string source_hash;  ///< of the compiled source
  std::string options, arch, toolchain;
  std::string image, log;
  std::map<std::string, std::string> resources;  ///< entry name -> "registers=32,static_smem_bytes=0,..."
  std::string op;                                ///< for Filter::op; if empty, only clear() of everything removes it
};

/// A binary without its image, log and source.
struct BinaryInfo {
  std::string fingerprint, source_hash, arch, toolchain, op;
  std::int64_t image_bytes = 0;
  std::int64_t created_unix_s = 0;
};

/// A read-only file, searched after the user's file.
struct SystemFileInfo {
  std::filesystem::path file;
  std::int64_t records = 0, binaries = 0;
  std::string ignored;  ///< why the file is ignored; empty if it is used
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
  std::string why_not_private;  ///< why binaries of the file are not loaded; empty if they are
  std::vector<SystemFileInfo> system_files;
};

class RemoteLease;
class RemoteStore;
struct SharedTuning;

struct CacheOptions {
  /// The user's file, created with its folder on the first write, for this user only (modes 0600 and 0700). Empty: results
  /// are kept in memory only.
  std::filesystem::path file;
  /// Read-only files, searched in this order after the user's file.
  std::vector<std::filesystem::path> system_files;
  /// Called once for each problem that degrades the cache. May be empty.
  std::function<void(const std::string&)> warn;
  /// Time that a lookup or write waits for another process, in milliseconds.
  int busy_timeout_ms = 5000;
  /// Shared by several hosts (cache/remote_store.h): asked for exact records and binaries that the files lack, before
  /// nearest ones. Answers are stored here, and new entries are published there. Null: none.
  std::shared_ptr<RemoteStore> remote;
};

/// The cache of one process. Thread-safe; several processes may share a file. If the file is damaged, locked, full,
/// read-only or not a Tunesmith cache, lookups and stores warn once and then miss or do nothing; they never throw. Only
/// maintenance calls throw Error(cache_failed).
class Cache {
 public:
  explicit Cache(CacheOptions options);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  std::optional<TuningRecord> find_record(const TuningKey& key);
  /// Finds records whose keys differ only in n_cols and rows_bucket, nearest first: by |log(n_cols ratio)|, then by
  /// |log(rows_bucket ratio)|. Includes the exact key.
  std::vector<TuningRecord> find_nearest(const TuningKey& key, int limit);
  /// Finds records whose keys differ only in the template digest, newest first.
  std::vector<TuningRecord> find_older(const TuningKey& key, int limit);
  /// Finds the n_cols of records whose keys differ only in n_cols, rows_bucket and the template digest.
  std::set<std::int64_t> find_n_cols(const TuningKey& key);
  std::vector<Trial> find_trials(const TuningKey& key);
  /// Replaces the key's record and upserts its trials, in one transaction.
  void store_record(const TuningRecord& record, const std::vector<Trial>& trials);

  /// Binaries are not taken from a file that others can write, or whose folder others can write: the file, or the folder,
  /// belongs to another user than this one and root, or its group or everybody may write it. The first time this happens,
  /// a warning says what to do.
  std::optional<BinaryRecord> find_binary(const std::string& fingerprint);
  /// Finds the newest binary of this source and architecture by any toolchain, for machines without a compiler.
  /// `source_key`: the first part of fingerprints.
  std::optional<BinaryRecord> find_binary_of_source(const std::string& source_key, const std::string& arch);
  /// Stores a binary and its source (once per source_hash).
  void store_binary(const BinaryRecord& binary, const std::string& source);
  std::optional<std::string> find_source(const std::string& source_hash);

  /// Claims the work on `key`, such as compiling a binary, among all threads and processes that use the user's file. Waits
  /// at most `wait` for another owner; returns nothing if it still works then. Look the result up again after this call: the
  /// other owner may have stored it. Without a file that can be locked, only threads that use this object exclude each
  /// other.
  std::optional<WorkClaim> claim(std::string_view key, std::chrono::milliseconds wait) const;

  /// The right of this host to tune a key.
  struct HostClaim {
    bool is_elsewhere = false;           ///< another host tunes the key now
    std::shared_ptr<RemoteLease> lease;  ///< null without a remote store that answers
  };
  /// Claims the tuning of a key among all hosts that share the remote store, for at most `limit_s` seconds. Never waits for
  /// another host.
  HostClaim claim_host(const TuningKey& key, double limit_s) const;
  /// Reports whether the remote store has pinned the records: only those are found, whatever the files hold.
  bool is_pinned() const;

  CacheInfo info();
  std::vector<TuningRecord> list_records();
  /// Runs SQLite's quick check, verifies every row's checksum and removes rows that fail. Returns the problems found.
  std::vector<std::string> verify();
  struct Filter {
    std::string op;              ///< empty: all
    bool binaries_only = false;  ///< keep tuning records
  };
  /// Removes rows; returns their number.
  std::int64_t clear(const Filter& filter);
  /// Writes a compact copy (VACUUM INTO) that can serve as a system cache. Throws Error(cache_failed) if `to` exists.
  void export_to(const std::filesystem::path& to, bool with_binaries);
  /// Copies the rows of `from` that this file lacks or has in an older version; binaries only if others cannot write
  /// `from`, see find_binary(). Returns the number of rows copied.
  std::int64_t import_from(const std::filesystem::path& from);
  /// Does the same with these records, in one transaction.
  std::int64_t import_records(const std::vector<TuningRecord>& records);
  /// Stores records with their trials, replacing this file's, and binaries; all in one transaction. Publishes nothing.
  void import_shared(const std::vector<SharedTuning>& tunings, const std::vector<BinaryRecord>& binaries);

  /// Lists the binaries of the user's file, ordered by fingerprint. Does not verify checksums.
  std::vector<BinaryInfo> list_binaries();
  /// What to remove. The caller decides which rows the current version can still use.
  struct PruneRequest {
    std::vector<TuningKey> records;     ///< with their trials
    std::vector<std::string> binaries;  ///< fingerprints
    /// Then removes the oldest binaries until the file is at most this size or none is left. Empty: no limit.
    std::optional<std::int64_t> max_file_bytes;
    bool dry_run = false;  ///< remove nothing, only report
  };
  struct PruneResult {
    std::int64_t records = 0, trials = 0, binaries = 0, sources = 0;  ///< rows removed
    std::vector<std::string> for_size;                                ///< fingerprints removed because of max_file_bytes
    std::int64_t bytes_before = 0, bytes_after = 0;                   ///< file size; for a dry run, an estimate
  };
  /// Removes rows from the user's file in one transaction, then unused sources, and releases the space.
  PruneResult prune(const PruneRequest& request);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tunesmith
