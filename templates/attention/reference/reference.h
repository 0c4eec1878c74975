#pragma once
// The float64 reference of attention. Internal to templates/.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "templates/attention/reference/dropout.h"
#include "templates/attention/settings.h"
#include "templates/attention/source/kv_layout.h"
#include "templates/op.h"

namespace tunesmith::attention {

/// Returns the array of this name, or nullptr.
const HostArray* find(std::span<const HostArray> arrays, std::string_view name);

/// Reads consecutive elements from `at` on.
void read_elements(DType dtype, const std::byte* data, std::int64_t at, std::vector<double>& out);

/// Returns the type that kernels on tensor cores round weights to; f32 where there are none.
DType weight_dtype(const Settings& settings) noexcept;

/// A number, and a bound of its rounding in a kernel.
struct Rounded {
  double value = 0, error = 0;
};
/// Returns the score of a dot product after scale and softcap. `size`: the sum of the magnitudes of its terms.
Rounded score_of(const Settings& settings, double dot, double size);

/// Attention in float64, one query at a time, from the arrays of a call.
class Reference {
 public:
  Reference(const Settings& settings, std::span<const HostArray> arrays)
      : settings_(settings), arrays_(arrays), sequences_(settings, arrays), dropout_(settings, arrays) {}

  using Bounds = Sequences::Bounds;
  /// Returns where a sequence starts and how long it is.
  Bounds sequence(std::int64_t batch) const { return sequences_.bounds(batch); }

  struct Row {
    std::vector<double> output;  ///< (head_dim_v)
    std::vector<double> size;    ///< sum of |weight * value|: relative errors refer to it
    std::vector<double> lost;    ///< bound of the rounding of weights that are denormal in f16
    double lse = 0;
    double largest_score_error = 0;  ///< bound of the rounding of any finite score
  };

  /// A query and its scores.
  struct Query {
    std::int64_t batch = 0, head = 0, query = 0;
    Bounds bounds;
    std::int64_t first_key = 0;
    std::vector<double> scores, errors;  ///< of each key from there on, and bounds of their rounding
    bool undecided = false;              ///< rounding decides whether a key is masked
  };

  /// Computes scores after scale and softcap, before the user functions.
  void compute_scores(Query& at) const;
  /// Computes a row of o and lse from the scores; adds ALiBi to them.
  void compute(Query& at, Row& row) const;

 private:
  void read_row(Side side, std::int64_t batch, std::int64_t position, std::int64_t head, std::vector<double>& out) const;

  const Settings& settings_;
  const std::span<const HostArray> arrays_;
  const Sequences sequences_;
  const DropoutMask dropout_;
};

}  // namespace tunesmith::attention
