#include "templates/linear_loss/backward_op.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "core/half.h"
#include "templates/linear_loss/params.cuh"
#include "templates/linear_loss/parts.h"
#include "templates/linear_loss/reference.h"

namespace tunesmith {

using linear_loss::find, linear_loss::Token;

ParsedLinearLossBackward::ParsedLinearLossBackward(const Op& op, const LinearLossBackwardProblem& problem)
    : ProductBased(op, problem, linear_loss::product_of(problem, problem.dlogits_row_stride)), p_(problem) {}

std::vector<std::string> ParsedLinearLossBackward::templates() {
  return {"linear_loss", "matmul/simt.cuh", "matmul/wgmma.cuh", "cross_entropy/cross_entropy.cuh"};
}

KeyParts ParsedLinearLossBackward::key() const { return linear_loss::key_of(p_, product(), p_.dentropy ? ",dentropy" : ""); }

Cost ParsedLinearLossBackward::cost() const {
  const auto tokens = static_cast<double>(p_.tokens), hidden_size = static_cast<double>(p_.hidden_size),
             vocab_size = static_cast<double>(p_.vocab_size), bytes = static_cast<double>(size_of(p_.dtype));
  return {(tokens + vocab_size) * hidden_size * bytes, tokens * vocab_size * bytes, 2 * tokens * vocab_size * hidden_size};
}

SourceParts ParsedLinearLossBackward::parts_of(const matmul::ProductConfig& c) const {
  const bool wgmma = c.variant == matmul::Variant::wgmma;
  SourceParts parts;
  parts.includes = {"linear_loss/backward.cuh", wgmma ? "matmul/wgmma.cuh" : "matmul/simt.cuh"};
  parts.kernel = wgmma ? "matmul_wgmma" : "matmul_simt";
  if (wgmma) parts.min_arch = "sm_90a";
  parts.algorithm = std::string("a product whose epilogue computes the gradient, with ") +
                    (wgmma ? "wgmma on tiles that TMA loads" : "float32 sums of tiles in shared memory");
  parts.threads = "as matmul";
  parts.specialized_for = {{"specialized for", std::string(name(p_.dtype))}, {"tokens, hidden_size, vocab_size", "any"}};
  const std::string params = "LinearLossBackwardParams";
  parts.constants = matmul::constants(product(), c) + linear_loss::loss_constants(p_) +
                    "static constexpr tunesmith::LinearLossBackwardShape loss_shape = {\n" + member("dlse", p_.dlse) +
                    member("dentropy", p_.dentropy) + linear_loss::upstream_member(p_) +
                    "};\n\nstatic_assert(sizeof(tunesmith::" + params +
                    ") == " + std::to_string(sizeof(LinearLossBackwardParams)) +
                    ", \"the host fills the parameters by this layout\");\n";
  parts.kernels = linear_loss::product_kernel("linear_loss_backward", params, c,
                                              "LogitGradientEpilogue<TargetType, loss_shape, options>");
  return parts;
}

LaunchPlan ParsedLinearLossBackward::plan_of(const matmul::ProductConfig& c, const DeviceInfo& device) const {
  constexpr std::size_t product_at = offsetof(LinearLossBackwardParams, matmul) + offsetof(MatmulWgmmaParams, product);
  static_assert(product_at == 0);
  constexpr std::array pointers{ArrayPlace{"hidden", product_at + offsetof(MatmulParams, a)},
                                ArrayPlace{"weight", product_at + offsetof(MatmulParams, b)},
                                ArrayPlace{"targets", offsetof(LinearLossBackwardParams, targets)},
                                ArrayPlace{"lse", offsetof(LinearLossBackwardParams, lse)},
                                ArrayPlace{"dloss", offsetof(LinearLossBackwardParams, dloss)},
                                ArrayPlace{"dlse", offsetof(LinearLossBackwardParams, dlse)},
                                ArrayPlace{"entropy", offsetof(LinearLossBackwardParams, entropy)},
                                ArrayPlace{"dentropy", offsetof(LinearLossBackwardParams, dentropy)},
                                ArrayPlace{"dlogits", product_at + offsetof(MatmulParams, c)}};
  LinearLossBackwardParams params{};
  matmul::fill(product(), c, params.matmul.product);
  linear_loss::set_loss_params(p_, params);
  LaunchPlan plan;
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  linear_loss::add_pointers(array_view(), pointers, plan);
  plan.kernels.push_back(
      matmul::add_product("linear_loss_backward", product(), c, device, linear_loss::positions_in(plan, "dlogits"), plan));
  return plan;
}

Problem ParsedLinearLossBackward::verification_problem() const {
  return linear_loss::smaller_problem(problem(), p_, "dlogits_row_stride");
}

void ParsedLinearLossBackward::fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const {
  linear_loss::fill_inputs(product(), p_.scale, p_.ignore_index, seed, kind, arrays);
  // As the forward operation computes them. A large problem, which is not checked, gets plausible ones.
  const bool exact = p_.tokens * p_.vocab_size * p_.hidden_size <= std::int64_t{1} << 30;
  const HostArray *const lse = find(arrays, "lse"), *const entropy = find(arrays, "entropy");
  for (std::int64_t t = 0; t < p_.tokens; ++t) {
    double of_token = std::log(static_cast<double>(p_.vocab_size)) + 4.5, entropy_of_token = of_token - 9;
    if (exact) {
      const Token token(product(), p_.scale, p_.softcap, arrays, t);
      of_token = token.lse(), entropy_of_token = token.entropy();
    }
    write_element(DType::f32, lse->data, t, static_cast<float>(of_token));
    if (entropy != nullptr) write_element(DType::f32, entropy->data, t, static_cast<float>(entropy_of_token));
  }
}

CheckResult ParsedLinearLossBackward::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  const HostArray &targets = *find(arrays, "targets"), &dlogits = *find(arrays, "dlogits");
  const std::int64_t stride = p_.dlogits_row_stride.value_or(p_.columns());
  const auto value_of = [&](const char* array, std::int64_t i) {
    const HostArray* const found = find(arrays, array);
    return found == nullptr ? 0.0 : static_cast<double>(read_element(DType::f32, found->data, i));
  };
  linear_loss::Comparison comparison(product(), max_rows);
  for (std::int64_t i = 0; i < comparison.tokens(); ++i) {
    const std::int64_t t = comparison.token(i);
    const Token token(product(), p_.scale, p_.softcap, arrays, t);
    const std::int64_t target = read_integer(p_.target_dtype, targets.data, t);
    const bool counts = target != p_.ignore_index && target >= 0 && target < p_.vocab_size;
    const double lse = value_of("lse", t), entropy = value_of("entropy", t);
    const double dloss = !counts ? 0 : p_.dloss == Upstream::none ? 1 : value_of("dloss", p_.dloss == Upstream::row ? t : 0);
    const double dlse = value_of("dlse", t), dentropy = value_of("dentropy", t), z_slope = 2 * p_.z_loss * lse;
    for (std::int64_t c = 0; c < p_.columns(); ++c) {
      const double found = read_element(p_.dtype, dlogits.data, t * stride + c);
      const std::string what = "dlogits[" + std::to_string(t) + "][" + std::to_string(c) + "]";
      if (c >= p_.vocab_size || (dloss == 0 && dlse == 0 && dentropy == 0)) {
        comparison.compare(what, p_.dtype, found, 0, 0);
        continue;
      }
      const auto at = static_cast<std::size_t>(c);
      const double logit = token.logits[at], derivative = token.slopes[at], distance = logit - lse, p = std::exp(distance);
      double gradient = p * (dloss + dloss * z_slope + dlse - dentropy * (distance + entropy));
      if (c == target) gradient -= dloss;
      // p has the errors of its logit, and is 0 below the range of float32; the sum of terms is rounded, and the logarithm
      // of p has the error of its logit, too.
      const double factors = std::fabs(dloss) * (1 + std::fabs(z_slope)) + std::fabs(dlse) +
                             std::fabs(dentropy) * (std::fabs(distance) + std::fabs(entropy));
      if (!std::isfinite(factors)) {  // infinite, NaN, or of a p or derivative that is rounded to 0
        if (std::isfinite(found) && std::min(p, derivative / p_.scale) > 0x1p-20)
          comparison.compare(what, p_.dtype, found, NAN, 0);
        continue;
      }
      const double terms = p * factors;
      const double error = token.error_of_exponential() + (std::fabs(lse) + std::fabs(logit)) * 0x1p-23;
      const double rounding = 0.51 * spacing(p_.dtype, gradient * derivative);
      const double denormal = 0x1p-148 * (1 + p_.scale);  // two roundings of a gradient before the derivative, and one after
      // With an lse far below the logit, p and its product with the factors overflow before the derivative or a factor below
      // 1 brings them back.
      const double largest = std::max(p, terms) * (1 + error + 0x1p-20);
      if (largest > largest_number(DType::f32) && !std::isfinite(found)) continue;
      comparison.compare(
          what, p_.dtype, found, gradient * derivative,
          rounding + denormal +
              (factors * 0x1p-125 + terms * (error + 0x1p-21) + p * std::fabs(dentropy) * error) * derivative +
              (terms + std::fabs(gradient)) * token.slope_errors[at] + std::fabs(gradient) * derivative * 0x1p-22);
    }
  }
  return comparison.result();
}

}  // namespace tunesmith
