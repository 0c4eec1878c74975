#pragma once
// Counters of the remote cache: of this process, and added up over all processes of a host in a small file.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>

namespace tunesmith::fleet {

/// By name, with labels as Prometheus writes them: hits_total{kind="record"}.
using Counts = std::map<std::string, std::uint64_t>;

/// Thread-safe.
class Counters {
 public:
  void add(const std::string& name, std::uint64_t count = 1);
  /// Adds a lookup to the histogram lookup_seconds.
  void add_latency(std::chrono::nanoseconds time);
  Counts all() const;
  /// Returns what was counted since the last call.
  Counts take_new();

 private:
  mutable std::mutex mutex_;
  Counts counts_, taken_;
};

/// Adds the counts to a file, which is created for this user only. Does nothing if the file cannot be written or another
/// process has it locked for long.
void add_to_file(const std::filesystem::path& file, const Counts& counts);
/// Reads such a file; lines that make no sense are ignored.
Counts read_counts(const std::filesystem::path& file);

/// The text format of Prometheus.
std::string prometheus_text(const Counts& counts);

}  // namespace tunesmith::fleet
