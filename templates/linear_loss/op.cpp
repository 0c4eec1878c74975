#include "templates/linear_loss/op.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "templates/folded_grid.h"
#include "templates/linear_loss/params.cuh"
#include "templates/linear_loss/parts.h"

namespace tunesmith {
namespace {

using matmul::ProductConfig;

constexpr std::int64_t threads = 256;  // linear_loss_threads in linear_loss.cuh

/// Elements of hidden and weight that a thread loads at once: rows start at multiples of them.
std::int64_t vector_of(const LinearLossProblem& p) {
  const std::int64_t bytes = size_of(p.dtype);
  std::int64_t vector = std::min<std::int64_t>({p.hidden_alignment, p.weight_alignment, 16}) / bytes;
  while (p.hidden_size % vector != 0) vector /= 2;
  return vector;
}

/// Offsets of the arrays in the workspace.
struct Layout {
  std::int64_t origins, target_logits, repeats, partials, weighted, bytes;

  Layout(std::int64_t tokens, std::int64_t groups, std::int64_t tiles, bool entropy) {
    std::int64_t at = 0;
    const auto place = [&](std::int64_t size) { return std::exchange(at, at + (size + 255) / 256 * 256); };
    origins = place(tokens * 4);
    target_logits = place(tokens * 4);
    repeats = place((groups + 1) * 4);
    partials = place(tokens * tiles * std::int64_t{sizeof(LinearLossPartial)});
    weighted = place(entropy ? tokens * tiles * 4 : 0);
    bytes = at;
  }
};

constexpr std::size_t product_at = offsetof(LinearLossParams, matmul) + offsetof(MatmulWgmmaParams, product);
constexpr std::array pointers{ArrayPlace{"hidden", product_at + offsetof(MatmulParams, a)},
                              ArrayPlace{"weight", product_at + offsetof(MatmulParams, b)},
                              ArrayPlace{"targets", offsetof(LinearLossParams, targets)},
                              ArrayPlace{"dloss", offsetof(LinearLossParams, dloss)},
                              ArrayPlace{"loss", offsetof(LinearLossParams, loss)},
                              ArrayPlace{"lse", offsetof(LinearLossParams, lse)},
                              ArrayPlace{"z_loss", offsetof(LinearLossParams, z_loss)},
                              ArrayPlace{"nll", offsetof(LinearLossParams, nll)},
                              ArrayPlace{"entropy", offsetof(LinearLossParams, entropy)},
                              ArrayPlace{"row_factors", offsetof(LinearLossParams, row_factors)},
                              ArrayPlace{"scaled_hidden", offsetof(LinearLossParams, scaled_hidden)},
                              ArrayPlace{"exponentials", product_at + offsetof(MatmulParams, c)}};

}  // namespace

ParsedLinearLoss::ParsedLinearLoss(const Op& op, const LinearLossProblem& problem)
    : ProductBased(op, problem, linear_loss::product_of(problem, problem.exponentials_row_stride)), p_(problem) {}

std::vector<std::string> ParsedLinearLoss::templates() {
  return {"linear_loss", "matmul/simt.cuh", "matmul/wgmma.cuh", "cross_entropy/cross_entropy.cuh"};
}

KeyParts ParsedLinearLoss::key() const {
  return linear_loss::key_of(p_, product(), std::string(p_.gradient ? ",gradient" : "") + (p_.entropy ? ",entropy" : ""));
}

Cost ParsedLinearLoss::cost() const {
  const auto tokens = static_cast<double>(p_.tokens), hidden_size = static_cast<double>(p_.hidden_size),
             vocab_size = static_cast<double>(p_.vocab_size), bytes = static_cast<double>(size_of(p_.dtype));
  return {(tokens + vocab_size) * hidden_size * bytes,
          p_.gradient ? tokens * (vocab_size + hidden_size) * bytes : 8 * tokens, 2 * tokens * vocab_size * hidden_size};
}

ProductConfig ParsedLinearLoss::default_of(const DeviceInfo& device) const {
  // A soft cap and its derivative take registers: with 256 columns, some are spilled.
  return matmul::default_config(product(), device, p_.gradient && p_.softcap > 0 ? 192 : 256);
}

SourceParts ParsedLinearLoss::parts_of(const ProductConfig& c) const {
  const bool wgmma = c.variant == matmul::Variant::wgmma;
  SourceParts parts;
  parts.includes = {wgmma ? "matmul/wgmma.cuh" : "matmul/simt.cuh", "linear_loss/linear_loss.cuh"};
  parts.kernel = "linear_loss_finish";
  if (wgmma) parts.min_arch = "sm_90a";
  parts.algorithm = std::string("a product whose epilogue writes exponentials and sums, with ") +
                    (wgmma ? "wgmma on tiles that TMA loads" : "float32 sums of tiles in shared memory");
  parts.threads = "product: as matmul; other kernels: a warp or a block per token";
  parts.specialized_for = {{"specialized for", std::string(name(p_.dtype)) + (p_.gradient ? ", with gradients" : "")},
                           {"tokens, hidden_size, vocab_size", "any"}};
  const std::string params = "LinearLossParams";
  parts.constants = matmul::constants(product(), c) + linear_loss::loss_constants(p_) +
                    "static constexpr tunesmith::LinearLossShape loss_shape = {\n" + member("vector", vector_of(p_)) +
                    member("gradient", p_.gradient) + member("nll", p_.nll) + member("entropy", p_.entropy) +
                    linear_loss::upstream_member(p_) + "};\n\nstatic_assert(sizeof(tunesmith::" + params +
                    ") == " + std::to_string(sizeof(LinearLossParams)) +
                    ", \"the host fills the parameters by this layout\");\n";
  const auto product_entry = [&](const std::string& entry, const std::string& again) {
    return linear_loss::product_kernel(entry, params, c,
                                       "ExponentialEpilogue<TargetType, loss_shape, options, " + again + ">");
  };
  const auto finish = [&](const std::string& entry, const std::string& again) {
    return linear_loss::kernel(entry, params, threads,
                               "linear_loss_finish<Element, TargetType, loss_shape, options, " + again + ">(params)");
  };
  parts.kernels = linear_loss::kernel("linear_loss_start", params, threads,
                                      "linear_loss_start<Element, TargetType, loss_shape, options>(params)") +
                  product_entry("linear_loss", "false") + finish("linear_loss_finish", "false") +
                  product_entry("linear_loss_repeat", "true") + finish("linear_loss_finish_again", "true");
  return parts;
}

LaunchPlan ParsedLinearLoss::plan_of(const ProductConfig& c, const DeviceInfo& device) const {
  LinearLossParams params{};
  static_assert(product_at == 0);
  matmul::fill(product(), c, params.matmul.product);
  const std::int64_t group_rows = c.rows() * (c.variant == matmul::Variant::wgmma ? c.cluster_m : 1);
  const std::int64_t groups = (p_.tokens + group_rows - 1) / group_rows, tiles = (p_.vocab_size + c.cols() - 1) / c.cols();
  const Layout layout(p_.tokens, groups, tiles, p_.entropy);
  params.origins_at = layout.origins;
  params.target_logits_at = layout.target_logits;
  params.weighted_at = layout.weighted;
  params.repeats_at = layout.repeats;
  params.partials_at = layout.partials;
  linear_loss::set_loss_params(p_, params);
  params.tiles = static_cast<int>(tiles);
  params.tile_columns = static_cast<int>(c.cols());
  params.group_rows = static_cast<int>(group_rows);
  params.groups = static_cast<int>(groups);

  LaunchPlan plan;
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  plan.workspace_bytes = layout.bytes;
  plan.workspace_offset = offsetof(LinearLossParams, workspace);
  plan.workspace_use = WorkspaceUse::scratch;
  linear_loss::add_pointers(array_view(), pointers, plan);
  const KernelLaunch main =
      matmul::add_product("linear_loss", product(), c, device, linear_loss::positions_in(plan, "exponentials"), plan);
  KernelLaunch repeat = main;
  repeat.entry = "linear_loss_repeat";
  plan.kernels = {folded_launch("linear_loss_start", (p_.tokens + threads / 32 - 1) / (threads / 32), threads, 0), main,
                  folded_launch("linear_loss_finish", p_.tokens, threads, 0), repeat,
                  folded_launch("linear_loss_finish_again", p_.tokens, threads, 0)};
  plan.main_kernel = 1;
  return plan;
}

Problem ParsedLinearLoss::verification_problem() const {
  return linear_loss::smaller_problem(problem(), p_, "exponentials_row_stride");
}

}  // namespace tunesmith
