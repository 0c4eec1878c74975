#pragma once
// Pieces of sources and launch plans that linear_loss and linear_loss_backward share. Internal.

#include <algorithm>
#include <bit>
#include <span>
#include <string>
#include <string_view>

#include "templates/array_places.h"
#include "templates/matmul/product.h"
#include "templates/op.h"
#include "templates/source_text.h"
#include "tunesmith/cross_entropy.h"

namespace tunesmith::linear_loss {

inline void add_pointers(std::span<const ArrayInfo> arrays, std::span<const ArrayPlace> places, LaunchPlan& plan) {
  for (const ArrayInfo& array : arrays)
    plan.pointers.push_back({array.name, offset_of(array.name, places), static_cast<std::uint32_t>(array.alignment),
                             array.extent_bytes(), array.output, false});
}

/// Returns the positions of the product's arrays. `written`: its c, which may be absent.
inline matmul::Positions positions_in(const LaunchPlan& plan, std::string_view written) {
  const auto position = [&](std::string_view array) {
    const auto found = std::ranges::find(plan.pointers, array, &LaunchPlan::Pointer::array);
    return found == plan.pointers.end() ? -1 : static_cast<int>(found - plan.pointers.begin());
  };
  return {position("hidden"), position("weight"), position(written)};
}

template <typename Problem, typename Params>
void set_loss_params(const Problem& p, Params& params) {
  params.ignore_index = p.ignore_index;
  params.vocab_size = p.vocab_size;
  params.scale = static_cast<float>(p.scale);
  params.softcap = static_cast<float>(p.softcap);
  params.inverse_softcap = p.softcap > 0 ? static_cast<float>(1 / p.softcap) : 0;
  params.z_factor = static_cast<float>(p.z_loss);
}

/// Returns the member of the kernels' shape for the upstream gradient.
template <typename Problem>
std::string upstream_member(const Problem& p) {
  return member("upstream", "tunesmith::Upstream::" + std::string(enum_name(p.dloss)));
}

/// Returns the definitions of `options` and TargetType.
template <typename Problem>
std::string loss_constants(const Problem& p) {
  return std::string("using TargetType = ") + (p.target_dtype == DType::i32 ? "int" : "tunesmith::int64") +
         ";\n\nstatic constexpr tunesmith::CrossEntropyOptions options = {\n" + member("scaled", p.scale != 1) +
         member("softcap", p.softcap > 0) + member("z_loss", p.z_loss > 0) + "};\n\n";
}

inline std::string kernel(const std::string& entry, const std::string& params, std::int64_t threads,
                          const std::string& call) {
  return "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads) + ", 1)\n" + entry +
         "(const __grid_constant__ tunesmith::" + params + " params) {\n  tunesmith::" + call + ";\n}\n";
}

/// Returns the kernel of a product with an epilogue.
inline std::string product_kernel(const std::string& entry, const std::string& params, const matmul::ProductConfig& config,
                                  const std::string& epilogue) {
  const bool wgmma = config.variant == matmul::Variant::wgmma;
  return kernel(entry, params, config.threads(),
                std::string(wgmma ? "matmul_wgmma" : "matmul_simt") + "<Element, Out, shape, config, tunesmith::" +
                    epilogue + ">(params.matmul" + (wgmma ? "" : ".product") + ", params)");
}

/// `options`: that change the kernel's speed.
template <typename Problem>
KeyParts key_of(const Problem& p, const matmul::ProductProblem& product, const std::string& options) {
  KeyParts parts;
  parts.problem_class = std::string(name(p.dtype)) + options + (p.softcap > 0 ? ",softcap" : "") +
                        (matmul::why_not_tma(product).empty() ? ",tma" : "") +
                        ",hidden_size=" + std::to_string(p.hidden_size);
  parts.n_cols = p.vocab_size;
  parts.rows_bucket = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(p.tokens)));
  return parts;
}

/// Returns a problem that is ragged, with the alignment of rows that the problem has. `row_stride`: the field of the logits.
template <typename Typed>
Problem smaller_problem(Problem problem, const Typed& p, std::string_view row_stride) {
  Typed small;
  small.tokens = 328 + p.tokens % 8, small.hidden_size = 200 + p.hidden_size % 8, small.vocab_size = 1000 + p.vocab_size % 8;
  problem.fields.set("tokens", small.tokens);
  problem.fields.set("hidden_size", small.hidden_size);
  problem.fields.set("vocab_size", small.vocab_size);
  problem.fields.set(row_stride, small.columns());
  return problem;
}

}  // namespace tunesmith::linear_loss
