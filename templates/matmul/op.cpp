#include "templates/matmul/op.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#include "templates/array_places.h"
#include "templates/folded_grid.h"
#include "templates/matmul/wgmma_params.cuh"
#include "tunesmith/error.h"

namespace tunesmith::matmul {

void complete(ProductProblem& p) {
  if (p.output() != p.dtype && p.output() != DType::f32)
    throw Error(ErrorCode::invalid_argument, "out_dtype is '", name(p.output()), "'; allowed: ", name(p.dtype), ", f32");
  check_tiles("m x n", p.m, p.n);
}

KeyParts ParsedProduct::key() const {
  KeyParts parts;
  parts.problem_class =
      std::string(tunesmith::name(product().dtype)) + "," + std::string(tunesmith::name(product().output())) +
      (product().transpose_a ? ",ta" : "") + (product().transpose_b ? ",tb" : "") + (product().accumulate ? ",add" : "") +
      (product().factor ? ",factor" : "") + (product().row_factors ? ",row_factors" : "") + (product().bias ? ",bias" : "") +
      (why_not_tma(product()).empty() ? ",tma" : "") + ",k=" + std::to_string(product().k);
  parts.n_cols = product().n;
  parts.rows_bucket = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(product().m)));
  return parts;
}

Cost ParsedProduct::cost() const {
  const auto m = static_cast<double>(product().m), n = static_cast<double>(product().n),
             k = static_cast<double>(product().k);
  const auto in = static_cast<double>(size_of(product().dtype)),
             c = m * n * static_cast<double>(size_of(product().output()));
  return {(m * k + k * n) * in + (product().accumulate ? c : 0), c, 2 * m * n * k};
}

SourceParts ParsedProduct::parts_of(const ProductConfig& c) const {
  const bool wgmma = c.variant == Variant::wgmma;
  SourceParts parts;
  parts.includes = {wgmma ? "matmul/wgmma.cuh" : "matmul/simt.cuh"};
  parts.kernel = wgmma ? "matmul_wgmma" : "matmul_simt";
  if (wgmma) parts.min_arch = "sm_90a";
  parts.algorithm = wgmma ? "wgmma on tiles that TMA loads into a ring of stages" : "float32 sums of tiles in shared memory";
  parts.threads = wgmma ? "persistent blocks; one producer thread and " + std::to_string(c.consumers) + " warpgroups"
                        : "16 x 16 threads compute a tile of " + std::to_string(c.tile) + " x " + std::to_string(c.tile);
  parts.specialized_for = {{"specialized for", std::string(tunesmith::name(product().dtype)) + " to " +
                                                   std::string(tunesmith::name(product().output()))},
                           {"m, n, k", "any"}};
  const std::string params = wgmma ? "MatmulWgmmaParams" : "MatmulParams";
  parts.constants = matmul::constants(product(), c) + "static_assert(sizeof(tunesmith::" + params +
                    ") == " + std::to_string(wgmma ? sizeof(MatmulWgmmaParams) : sizeof(MatmulParams)) +
                    ", \"the host fills the parameters by this layout\");\n";
  const auto kernel = [&](const std::string& entry, std::int64_t threads, const std::string& function) {
    return "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads) + ", 1)\n" + entry +
           "(const __grid_constant__ tunesmith::" + params + " params) {\n  tunesmith::" + function +
           "<Element, Out, shape, config, tunesmith::LinearEpilogue<shape>>(params, params" + (wgmma ? ".product" : "") +
           ");\n}\n";
  };
  parts.kernels = kernel("matmul", c.threads(), parts.kernel);
  if (c.splits > 1) parts.kernels += kernel("matmul_combine", c.threads() - 128, "matmul_combine");
  return parts;
}

LaunchPlan ParsedProduct::plan_of(const ProductConfig& c, const DeviceInfo& device) const {
  MatmulWgmmaParams params{};
  static_assert(offsetof(MatmulWgmmaParams, product) == 0);
  fill(product(), c, params.product);
  LaunchPlan plan;
  plan.params.resize(c.variant == Variant::wgmma ? sizeof params : sizeof params.product);
  std::memcpy(plan.params.data(), &params, plan.params.size());

  static constexpr std::array<ArrayPlace, 6> places{{{"a", offsetof(MatmulParams, a)},
                                                     {"b", offsetof(MatmulParams, b)},
                                                     {"c", offsetof(MatmulParams, c)},
                                                     {"factor", offsetof(MatmulParams, factor)},
                                                     {"row_factors", offsetof(MatmulParams, row_factors)},
                                                     {"bias", offsetof(MatmulParams, bias)}}};
  for (const ArrayInfo& array : array_view())
    plan.pointers.push_back({array.name, offset_of(array.name, places), static_cast<std::uint32_t>(array.alignment),
                             array.extent_bytes(), array.output, false});
  plan.kernels.push_back(
      add_product("matmul", product(), c, device, {0, 1, static_cast<int>(plan.pointers.size()) - 1}, plan));
  if (c.splits > 1) {
    plan.workspace_bytes = workspace_bytes(product(), c);
    plan.workspace_offset = offsetof(MatmulWgmmaParams, workspace);
    plan.workspace_use = WorkspaceUse::scratch;
    plan.kernels.push_back(folded_launch("matmul_combine", block_tiles(product(), c), c.threads() - 128, c.slab_bytes()));
  }
  return plan;
}

Problem ParsedProduct::verification_problem() const {
  Problem small = problem();
  ProductProblem p;
  // Ragged, with the alignment of rows that the problem has.
  p.m = 328 + product().m % 8, p.n = 456 + product().n % 8, p.k = 64 * max_splits + 8 + product().k % 8;
  p.transpose_a = product().transpose_a, p.transpose_b = product().transpose_b;
  const auto stride = [](std::int64_t cols, std::int64_t of) { return of % 8 == 0 ? (cols + 7) / 8 * 8 : cols; };
  small.fields.set("m", p.m);
  small.fields.set("n", p.n);
  small.fields.set("k", p.k);
  small.fields.set("a_row_stride", stride(p.a_cols(), product().a_stride()));
  small.fields.set("b_row_stride", stride(p.b_cols(), product().b_stride()));
  small.fields.set("c_row_stride", stride(p.n, product().c_stride()));
  return small;
}

}  // namespace tunesmith::matmul
