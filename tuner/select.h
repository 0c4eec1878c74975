#pragma once
// Which configuration to use for a problem: exact record -> record of older templates -> nearest n_cols -> default. The
// answer says which.

#include <string>

#include "cache/cache.h"
#include "templates/op.h"
#include "templates/template_set.h"
#include "tunesmith/types.h"

namespace tunesmith {

struct Selection {
  Config config;
  Origin origin = Origin::by_default;
  std::int64_t nearest_n_cols = 0;  ///< n_cols of the record used; 0 for by_default and pinned
  bool stale = false;               ///< the record was measured under another driver, clock or power limit
  double median_us = 0;             ///< as recorded; 0 when not measured
};

/// How measurements are made; part of the key, so that a change of method does not mix with old figures.
std::string measuring_policy();

/// The key under which the result for this problem on this device is kept.
TuningKey tuning_key(const ParsedProblem& problem, const DeviceInfo& device, const TemplateSet& templates);

/// `mode` off: the default. replay and tune: the best record there is. A record whose configuration is not valid for this
/// problem or device is passed over. `provenance` is the device's present one, compared for staleness. Never throws for
/// what a cache may hold.
Selection select(const ParsedProblem& problem, const DeviceInfo& device, const TemplateSet& templates, Cache& cache,
                 Mode mode, const std::map<std::string, std::string>& provenance);

}  // namespace tunesmith
