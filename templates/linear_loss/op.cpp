#include "templates/linear_loss/op.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "templates/folded_grid.h"
#include "templates/linear_loss/params.cuh"
#include "templates/source_text.h"

namespace tunesmith {
namespace {

using matmul::ProductConfig, matmul::ProductProblem;

constexpr std::int64_t threads = 256;  // linear_loss_threads in linear_loss.cuh

ProductProblem product_of(const LinearLossProblem& p) {
  ProductProblem product;
  product.m = p.tokens;
  product.n = p.vocab_size;
  product.k = p.hidden_size;
  product.dtype = p.dtype;
  product.transpose_b = true;
  product.more_columns = p.columns() - p.vocab_size;
  product.c_row_stride = p.exponentials_row_stride;
  product.a_alignment = p.hidden_alignment;
  product.b_alignment = p.weight_alignment;
  return product;
}

/// Elements of hidden and weight that a thread loads at once: rows start at multiples of them.
std::int64_t vector_of(const LinearLossProblem& p) {
  const std::int64_t bytes = size_of(p.dtype);
  std::int64_t vector = std::min<std::int64_t>({p.hidden_alignment, p.weight_alignment, 16}) / bytes;
  while (p.hidden_size % vector != 0) vector /= 2;
  return vector;
}

/// Offsets of the arrays in the workspace.
struct Layout {
  std::int64_t origins, target_logits, repeats, partials, bytes;

  Layout(std::int64_t tokens, std::int64_t groups, std::int64_t tiles) {
    std::int64_t at = 0;
    const auto place = [&](std::int64_t size) { return std::exchange(at, at + (size + 255) / 256 * 256); };
    origins = place(tokens * 4);
    target_logits = place(tokens * 4);
    repeats = place(groups * 4);
    partials = place(tokens * tiles * std::int64_t{sizeof(LinearLossPartial)});
    bytes = at;
  }
};

struct Pointer {
  std::string_view array;
  std::size_t offset;
};
constexpr std::size_t product_at = offsetof(LinearLossParams, matmul) + offsetof(MatmulWgmmaParams, product);
constexpr std::array pointers{Pointer{"hidden", product_at + offsetof(MatmulParams, a)},
                              Pointer{"weight", product_at + offsetof(MatmulParams, b)},
                              Pointer{"targets", offsetof(LinearLossParams, targets)},
                              Pointer{"dloss", offsetof(LinearLossParams, dloss)},
                              Pointer{"loss", offsetof(LinearLossParams, loss)},
                              Pointer{"lse", offsetof(LinearLossParams, lse)},
                              Pointer{"z_loss", offsetof(LinearLossParams, z_loss)},
                              Pointer{"nll", offsetof(LinearLossParams, nll)},
                              Pointer{"row_factors", offsetof(LinearLossParams, row_factors)},
                              Pointer{"scaled_hidden", offsetof(LinearLossParams, scaled_hidden)},
                              Pointer{"exponentials", product_at + offsetof(MatmulParams, c)}};

}  // namespace

ParsedLinearLoss::ParsedLinearLoss(const Op& op, const LinearLossProblem& problem)
    : TypedProblem(op, problem), p_(problem), product_(product_of(problem)) {}

std::vector<std::string> ParsedLinearLoss::templates() {
  return {"linear_loss", "matmul/simt.cuh", "matmul/wgmma.cuh", "cross_entropy/cross_entropy.cuh"};
}

KeyParts ParsedLinearLoss::key() const {
  KeyParts parts;
  parts.problem_class = std::string(name(p_.dtype)) + (p_.gradient ? ",gradient" : "") + (p_.softcap > 0 ? ",softcap" : "") +
                        (matmul::why_not_tma(product_).empty() ? ",tma" : "") +
                        ",hidden_size=" + std::to_string(p_.hidden_size);
  parts.n_cols = p_.vocab_size;
  parts.rows_bucket = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(p_.tokens)));
  return parts;
}

Cost ParsedLinearLoss::cost() const {
  const auto tokens = static_cast<double>(p_.tokens), hidden_size = static_cast<double>(p_.hidden_size),
             vocab_size = static_cast<double>(p_.vocab_size), bytes = static_cast<double>(size_of(p_.dtype));
  return {(tokens + vocab_size) * hidden_size * bytes,
          p_.gradient ? tokens * (vocab_size + hidden_size) * bytes : 8 * tokens, 2 * tokens * vocab_size * hidden_size};
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
  const std::string upstream = p_.dloss == Upstream::row ? "row" : p_.dloss == Upstream::scalar ? "scalar" : "none";
  parts.constants =
      matmul::constants(product_, c) + "using TargetType = " + (p_.target_dtype == DType::i32 ? "int" : "tunesmith::int64") +
      ";\n\nstatic constexpr tunesmith::LinearLossShape loss_shape = {\n" + member("vector", vector_of(p_)) +
      member("gradient", p_.gradient) + member("upstream", "tunesmith::Upstream::" + upstream) + member("nll", p_.nll) +
      "    .options = {.scaled = " + (p_.scale != 1 ? "true" : "false") +
      ", .softcap = " + (p_.softcap > 0 ? "true" : "false") + ", .z_loss = " + (p_.z_loss > 0 ? "true" : "false") +
      "},\n};\n\n" + "static_assert(sizeof(tunesmith::LinearLossParams) == " + std::to_string(sizeof(LinearLossParams)) +
      ", \"the host fills the parameters by this layout\");\n";
  const auto kernel = [](const std::string& entry, std::int64_t block, const std::string& body) {
    return "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(block) + ", 1)\n" + entry +
           "(const __grid_constant__ tunesmith::LinearLossParams params) {\n  tunesmith::" + body + ";\n}\n";
  };
  const auto product = [&](const std::string& entry, const std::string& again) {
    return kernel(entry, c.threads(),
                  std::string(wgmma ? "matmul_wgmma" : "matmul_simt") +
                      "<Element, Out, shape, config, tunesmith::ExponentialEpilogue<TargetType, loss_shape, " + again +
                      ">>(params.matmul" + (wgmma ? "" : ".product") + ", params)");
  };
  const auto finish = [&](const std::string& entry, const std::string& again) {
    return kernel(entry, threads, "linear_loss_finish<Element, TargetType, loss_shape, " + again + ">(params)");
  };
  parts.kernels = kernel("linear_loss_start", threads, "linear_loss_start<Element, TargetType, loss_shape>(params)") +
                  product("linear_loss", "false") + finish("linear_loss_finish", "false") +
                  product("linear_loss_repeat", "true") + finish("linear_loss_finish_again", "true");
  return parts;
}

LaunchPlan ParsedLinearLoss::plan_of(const ProductConfig& c, const DeviceInfo& device) const {
  LinearLossParams params{};
  static_assert(product_at == 0);
  matmul::fill(product_, c, params.matmul.product);
  const std::int64_t group_rows = c.rows() * (c.variant == matmul::Variant::wgmma ? c.cluster_m : 1);
  const std::int64_t groups = (p_.tokens + group_rows - 1) / group_rows, tiles = (p_.vocab_size + c.cols() - 1) / c.cols();
  const Layout layout(p_.tokens, groups, tiles);
  params.origins_at = layout.origins;
  params.target_logits_at = layout.target_logits;
  params.repeats_at = layout.repeats;
  params.partials_at = layout.partials;
  params.ignore_index = p_.ignore_index;
  params.vocab_size = p_.vocab_size;
  params.tiles = static_cast<int>(tiles);
  params.group_rows = static_cast<int>(group_rows);
  params.groups = static_cast<int>(groups);
  params.scale = static_cast<float>(p_.scale);
  params.softcap = static_cast<float>(p_.softcap);
  params.inverse_softcap = p_.softcap > 0 ? static_cast<float>(1 / p_.softcap) : 0;
  params.z_factor = static_cast<float>(p_.z_loss);

  LaunchPlan plan;
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  plan.workspace_bytes = layout.bytes;
  plan.workspace_offset = offsetof(LinearLossParams, workspace);
  plan.workspace_use = WorkspaceUse::scratch;
  const auto position = [&](std::string_view array) {
    for (std::size_t i = 0; i < plan.pointers.size(); ++i)
      if (plan.pointers[i].array == array) return static_cast<int>(i);
    return -1;
  };
  for (const ArrayInfo& array : array_view()) {
    const auto* const pointer = std::ranges::find(pointers, array.name, &Pointer::array);
    plan.pointers.push_back({array.name, static_cast<std::uint32_t>(pointer->offset),
                             static_cast<std::uint32_t>(array.alignment), array.extent_bytes(), array.output, false});
  }
  const auto product = [&](const char* entry) {
    return matmul::add_product(entry, product_, c, device,
                               {position("hidden"), position("weight"), position("exponentials")}, plan);
  };
  plan.kernels = {folded_launch("linear_loss_start", (p_.tokens + threads / 32 - 1) / (threads / 32), threads, 0),
                  product("linear_loss"), folded_launch("linear_loss_finish", p_.tokens, threads, 0)};
  KernelLaunch repeat = plan.kernels[1];
  repeat.entry = "linear_loss_repeat";
  plan.kernels.push_back(repeat);
  plan.kernels.push_back(folded_launch("linear_loss_finish_again", p_.tokens, threads, 0));
  plan.main_kernel = 1;
  return plan;
}

Problem ParsedLinearLoss::verification_problem() const {
  Problem small = problem();
  LinearLossProblem p;
  // Ragged, with the alignment of rows that the problem has.
  p.tokens = 328 + p_.tokens % 8, p.hidden_size = 200 + p_.hidden_size % 8, p.vocab_size = 1000 + p_.vocab_size % 8;
  small.fields.set("tokens", p.tokens);
  small.fields.set("hidden_size", p.hidden_size);
  small.fields.set("vocab_size", p.vocab_size);
  small.fields.set("exponentials_row_stride", p.columns());
  return small;
}

}  // namespace tunesmith
