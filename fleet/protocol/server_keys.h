#pragma once
// The names of the keys on the server. All keys of a namespace start with "ts1:{NAMESPACE}:".

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cache/cache.h"

namespace tunesmith::fleet {

class ServerKeys {
 public:
  explicit ServerKeys(const std::string& name_space) : prefix_("ts1:{" + name_space + "}:") {}

  const std::string& prefix() const { return prefix_; }
  /// A hash: field() of each record of a family -> tuning.
  std::string tunings(const TuningKey& key) const;
  std::string binary(std::string_view fingerprint) const { return prefix_ + "b:" + std::string(fingerprint); }
  std::string generation(std::string_view name) const { return prefix_ + "g:" + std::string(name); }
  /// A string: the token of the host that tunes the key.
  std::string lease(const TuningKey& key) const;
  /// A stream of jobs.
  std::string queue(std::string_view name) const { return prefix_ + "q:" + std::string(name); }
  /// A list of jobs that failed too often, with their errors.
  std::string dead(std::string_view name) const { return prefix_ + "d:" + std::string(name); }
  /// A string: the state of a job.
  std::string job(std::string_view id) const { return prefix_ + "j:" + std::string(id); }

 private:
  std::string prefix_;
};

/// "N_COLS,ROWS_BUCKET".
std::string field(const TuningKey& key);
struct FieldNumbers {
  std::int64_t n_cols = 0, rows_bucket = 0;
};
std::optional<FieldNumbers> parse_field(std::string_view text);

}  // namespace tunesmith::fleet
