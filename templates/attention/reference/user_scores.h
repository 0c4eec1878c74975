#pragma once
// Scores after score_mod and mask_mod, for the float64 reference. Internal to templates/.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "templates/attention/reference/reference.h"
#include "templates/attention/source/modification.h"

namespace tunesmith::attention {

/// Applies the user functions to the reference's scores, on the device. It also evaluates both ends of each score's
/// rounding: the difference bounds the error that rounding causes in the kernel.
class UserScores {
 public:
  UserScores(const Settings& settings, std::span<const HostArray> arrays, const Evaluate& evaluate);

  /// Rows of one launch, which keep the device busy and fit into host memory.
  std::int64_t rows_at_once() const noexcept {
    return std::max<std::int64_t>(1, (1 << 20) / (3 * std::max<std::int64_t>(settings_.seq_kv, 1)));
  }

  /// Replaces the scores of the queries. Not thread-safe.
  void apply(std::span<Reference::Query> queries) const;
  /// Returns the derivatives of score_mod at the scores of each query, which apply() has not replaced yet. Not thread-safe.
  std::vector<std::vector<Rounded>> derivatives(std::span<const Reference::Query> queries) const;

  /// Results at the lower end of each score's rounding, at the score, and at the upper end: three rows for each query.
  struct Results {
    std::size_t keys = 0;  ///< of a row
    std::vector<float> values;
    std::vector<std::int64_t> elements;  ///< likewise, of plans with such an array

    const float* at(std::size_t query, std::size_t key) const noexcept { return &values[3 * query * keys + key]; }
  };
  /// Runs a plan with the arrays of modification_plan(), and with `elements` (i64, rows x keys) if `has_elements`.
  /// `plan_of`: of rows and keys. Not thread-safe.
  Results evaluate(const std::function<LaunchPlan(std::int64_t, std::int64_t)>& plan_of, bool has_elements,
                   std::span<const Reference::Query> queries) const;

 private:
  Results evaluate(ModificationEntry entry, std::span<const Reference::Query> queries) const;

  const Settings& settings_;
  const Evaluate& evaluate_;
  std::vector<HostArray> arrays_;
};

}  // namespace tunesmith::attention
