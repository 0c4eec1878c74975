#pragma once
// Which configuration to use for a problem: exact record -> record of older templates -> nearest n_cols -> default. The
// answer says which.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "templates/op.h"
#include "templates/template_set.h"
#include "tunesmith/types.h"

namespace tunesmith {

struct Selection {
  KernelConfig config;
  Origin origin = Origin::by_default;
  std::int64_t nearest_n_cols = 0;  ///< n_cols of the record used; 0 for by_default and pinned
  bool stale = false;               ///< the record was measured under another driver, clock or power limit
  double median_us = 0;             ///< as recorded; 0 when not measured
};

/// How measurements are made; part of the key, so that a change of method does not mix with old figures.
std::string measuring_policy();

/// Returns n_cols of the key under which results are kept: n_cols itself if it is compiled in, else the upper end of its
/// bucket: two buckets an octave (half_octave()).
std::int64_t tuned_n_cols(const KeyParts& parts) noexcept;

/// Returns the key under which the result for this problem on this device is kept.
TuningKey tuning_key(const ParsedProblem& problem, const DeviceInfo& device, const TemplateSet& templates);

/// Returns the key of the class of problems whose kernels cost alike (KeyParts::related_class), made from the problem's own
/// key; nothing if there is none.
std::optional<TuningKey> related_key(const KeyParts& parts, TuningKey key);

/// A record that may be used for a tuning key.
struct KnownRecord {
  std::int64_t n_cols = 0;
  KernelConfig config;
  Origin origin = Origin::exact;  ///< exact, older or nearest
  bool stale = false;
  double median_us = 0;
};

/// Returns the records for `key`, the tuning key of `problem`, in the order of preference: of its bucket, the key's own
/// first; of older templates; of near n_cols; of related problems with near n_cols. Records whose configuration cannot be
/// read are left out. `provenance` is the device's present one, compared for staleness. Never throws for what a cache may
/// hold.
std::vector<KnownRecord> known_records(const ParsedProblem& problem, const TuningKey& key, Cache& cache,
                                       const std::map<std::string, std::string>& provenance);

/// Selects from known_records() of a problem with the same tuning key: the first record that can run this problem, but one
/// that was measured with its very n_cols before others of its bucket; the default if there is none.
Selection select(const ParsedProblem& problem, const DeviceInfo& device, const std::vector<KnownRecord>& records);

/// `mode` off: the default. replay and tune: the best record there is. A record whose configuration is not valid for this
/// problem or device is passed over. `provenance` is the device's present one, compared for staleness. Never throws for
/// what a cache may hold.
Selection select(const ParsedProblem& problem, const DeviceInfo& device, const TemplateSet& templates, Cache& cache,
                 Mode mode, const std::map<std::string, std::string>& provenance);

}  // namespace tunesmith
