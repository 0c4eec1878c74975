#pragma once
// The logits of a token in float64, and comparisons with results. Internal.

#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "templates/matmul/product.h"
#include "templates/op.h"

namespace tunesmith::linear_loss {

using matmul::find;

/// Fills hidden, weight, targets and upstream gradients. The first rows of edge cases have a NaN, logits with a deviation of
/// 200, targets with nearly all of the probability, and targets that are ignored or no class.
void fill_inputs(const matmul::ProductProblem& product, double scale, std::int64_t ignore_index, std::uint64_t seed,
                 InputKind kind, std::span<const HostArray> arrays);

/// A token's logits and what follows from them.
struct Token {
  std::vector<double> logits;        ///< scaled and capped
  std::vector<double> slopes;        ///< d logit / d product
  std::vector<double> slope_errors;  ///< of a slope near 0, and from the error of the logit that it depends on
  double largest = -INFINITY;
  double sum = 0;            ///< of exponentials relative to the largest
  double product_error = 0;  ///< of any logit, from sums of finite terms in float32

  /// From the arrays hidden and weight.
  Token(const matmul::ProductProblem& product, double scale, double softcap, std::span<const HostArray> arrays,
        std::int64_t token);
  /// Returns whether the logits are so large that the errors of float32 products decide about their exponentials. Only lse
  /// is known then.
  bool is_vague() const { return product_error > 0.25; }
  /// Returns false beyond 2^28, where the kernels' binary logarithm of the largest exponential is off by more than exponents
  /// hold, and where the target's logit may be off by as much as the origin is above it.
  bool has_known_lse() const { return product_error < 16 && !(std::fabs(largest) > 0x1p28 && std::isfinite(largest)); }
  double lse() const { return largest + std::log(sum); }
  double share(std::int64_t c) const { return std::exp(logits[static_cast<std::size_t>(c)] - largest) / sum; }
  /// Returns -sum_c share log(share).
  double entropy() const;
  /// Returns the relative error of an exponential: of its logit, of an exponent of up to 160, and of ex2.approx.
  double error_of_exponential() const { return product_error + 160 * 0x1p-24 + 0x1p-21; }
};

/// Collects the result of a check: errors are multiples of the allowed ones.
class Comparison {
 public:
  /// As many rows as are affordable, evenly spread.
  Comparison(const matmul::ProductProblem& product, std::int64_t max_rows);
  /// Returns the i-th checked token.
  std::int64_t token(std::int64_t i) const;
  std::int64_t tokens() const noexcept { return result_.checked_rows; }
  /// `dtype`: of the result, which is infinite if the error or the rounding takes it beyond the largest number.
  void compare(const std::string& what, DType dtype, double found, double expected, double allowed);
  CheckResult result() const;

 private:
  CheckResult result_;
};

}  // namespace tunesmith::linear_loss
