#pragma once
// The float64 reference of attention's backward pass, with a bound of each gradient's rounding error. Internal to
// templates/.
//
// Bounds add up what a kernel rounds: dot products and sums of n float32 terms (n * 2^-24 of their magnitudes, twice for
// tensor cores, which truncate), powers of two (2^-21 and the error of the exponent), and the 16-bit roundings of P and dS
// (2^-8 or 2^-11 of each, half the least denormal in f16, and float32 results below 2^-126).
//
// They hold whatever the roundings are: the roundings of a gradient's heads / kv_heads * seq_q terms are added as if all had
// the worst size and the same sign, with the products of two 16-bit roundings. So a kernel that rounds no more than this is
// never found to be wrong, in `run` or by the tuner, which use the same bounds. Products of a 16-bit rounding and one of
// float32 are left out: they are below 2^-8 of terms that are 2^-20 and are counted twice or more generously.

#include <cstdint>
#include <span>
#include <vector>

#include "templates/attention/reference/reference.h"
#include "templates/attention/reference/user_scores.h"
#include "templates/attention_backward/aux_gradient.h"

namespace tunesmith::attention_backward {

/// Float32 results that are smaller may be flushed to 0.
inline constexpr double min_normal = 0x1p-126;

/// Rows of numbers.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;

  const double* row(std::int64_t i) const noexcept { return values.data() + i * columns; }
};

/// A number, the magnitudes of the terms that it is the sum of, and a bound of its error.
struct Bounded {
  double value = 0, size = 0, error = 0;

  Bounded times(double factor) const noexcept;
};

/// Sums of terms, of their magnitudes, and of bounds of their errors: a row of a gradient.
struct GradientRow {
  std::vector<double> sums, sizes, bounds;
  std::int64_t terms = 0;

  explicit GradientRow(std::int64_t width = 0);
  /// Adds factor * row.
  void add(const Bounded& factor, const double* row);
};

/// Terms of the backward pass for a pair of a query and a key.
struct PairTerms {
  Bounded probability, score_gradient;
  Bounded gradient;        ///< of the scaled dot product
  double distance = 0;     ///< as in ALiBi
  bool undecided = false;  ///< rounding decides whether the pair is masked or what its probability is, or a factor overflows
  /// Derivatives of the score by elements of arrays that get gradients. Of a query's pairs only.
  std::vector<AuxDerivative> aux{};
};

/// The keys of one sequence and key head.
struct KeyHead {
  std::int64_t batch = 0, kv_head = 0;
  attention::Reference::Bounds bounds;
  Matrix k, v;
};

/// The queries of one sequence and head.
struct QueryHead {
  std::int64_t head = 0;
  Matrix q, dout;
  std::vector<double> lse;
  std::vector<Bounded> delta;
};

class Reference {
 public:
  /// `evaluate`: for user functions.
  Reference(const Settings& settings, std::span<const HostArray> arrays, const Evaluate& evaluate);

  KeyHead keys(std::int64_t batch, std::int64_t kv_head) const;
  QueryHead queries(const KeyHead& keys, std::int64_t head) const;

  /// Terms of a query with the keys, or of a key with the queries, from `first` on that it sees, or that see it, by
  /// position.
  struct Line {
    std::int64_t first = 0;
    std::vector<PairTerms> pairs;
  };
  /// Return the lines of consecutive queries or keys. User functions are evaluated for all of them together.
  std::vector<Line> of_queries(const KeyHead& keys, const QueryHead& queries, std::span<const std::int64_t> numbers) const;
  std::vector<Line> of_keys(const KeyHead& keys, const QueryHead& queries, std::span<const std::int64_t> numbers) const;
  /// Returns the number of them that a call should get, with `pairs` pairs each: one if there are no user functions.
  std::int64_t lines_at_once(std::int64_t pairs) const noexcept;

  /// Adds the contribution of a head's queries of one sequence to dsinks.
  void add_sink_gradient(const QueryHead& queries, Bounded& sum) const;

 private:
  Matrix load(const std::byte* data, Side side, const Tensor& tensor, std::int64_t batch, std::int64_t start,
              std::int64_t count, std::int64_t head) const;
  attention::Rounded score(const KeyHead& keys, const QueryHead& queries, std::int64_t query, std::int64_t key) const;
  /// A score after the user functions and before them, and the derivative of the one by the other.
  struct Score {
    attention::Rounded value, unmodified, derivative;
  };
  /// Applies the user functions to the scores of the queries, one row of scores each.
  std::vector<std::vector<Score>> modified(std::vector<attention::Reference::Query>& queries) const;
  PairTerms terms(const KeyHead& keys, const QueryHead& queries, std::int64_t query, std::int64_t key,
                  const Score& score) const;
  double head_value(const char* array, std::int64_t head) const;

  const Settings& settings_;
  const std::span<const HostArray> arrays_;
  const Evaluate& evaluate_;
  const attention::Reference forward_;
  const attention::DropoutMask dropout_;
  const attention::UserScores user_scores_;
};

}  // namespace tunesmith::attention_backward
