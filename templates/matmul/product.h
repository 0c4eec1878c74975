#pragma once
// A matrix product: its problem, its configurations and its launch. Shared by operations whose kernels are products, with
// epilogues of their own. Internal to templates/.

#include <cstdint>
#include <limits>
#include <optional>

#include "templates/config_values.h"
#include "templates/op.h"
#include "tunesmith/description.h"

namespace tunesmith {
struct MatmulParams;
}  // namespace tunesmith

namespace tunesmith::matmul {

struct ProductArrays {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* factor = nullptr;
  const void* row_factors = nullptr;
  const void* bias = nullptr;
  void* c = nullptr;
};

/// A is (m, k), B is (k, n) and c is (m, n), all row-major. Sums are accumulated in float32 and rounded once; with
/// accumulate and 16-bit c, the product and its sum with c are rounded.
struct ProductProblem {
  using Arrays = ProductArrays;
  static constexpr bool internal = true;
  static constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() - 1023;

  std::int64_t m = 1, n = 1, k = 1;
  DType dtype = DType::bf16;                                                   ///< of a and b: f32, f16 or bf16
  std::optional<DType> out_dtype{};                                            ///< of c: dtype or f32; absent: dtype
  bool transpose_a = false;                                                    ///< a holds (k, m)
  bool transpose_b = false;                                                    ///< b holds (n, k)
  std::optional<std::int64_t> a_row_stride{}, b_row_stride{}, c_row_stride{};  ///< elements; absent: contiguous
  std::int64_t a_alignment = 16, b_alignment = 16, c_alignment = 16;           ///< of the addresses, bytes
  bool accumulate = false;                                                     ///< c += instead of c =
  bool factor = false;                                                         ///< multiplies with a float32
  bool row_factors = false;                                                    ///< multiplies rows with float32 values (m)
  bool bias = false;                                                           ///< adds float32 values (n) to every row
  std::int64_t more_columns = 0;  ///< of c, beyond n; not of the operation, but of others that share its kernels
  bool may_split = true;          ///< likewise: k may be split, because a second kernel has the epilogue

  constexpr std::string_view op() const noexcept { return "matmul"; }
  constexpr DType output() const noexcept { return out_dtype.value_or(dtype); }
  constexpr std::int64_t a_cols() const noexcept { return transpose_a ? m : k; }
  constexpr std::int64_t b_cols() const noexcept { return transpose_b ? k : n; }
  constexpr std::int64_t a_stride() const noexcept { return a_row_stride.value_or(a_cols()); }
  constexpr std::int64_t b_stride() const noexcept { return b_row_stride.value_or(b_cols()); }
  constexpr std::int64_t c_cols() const noexcept { return n + more_columns; }
  constexpr std::int64_t c_stride() const noexcept { return c_row_stride.value_or(c_cols()); }
};

template <DescribedAs<ProductProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const ProductArrays& arrays, Visitor& v) {
  constexpr std::int64_t most = ProductProblem::most;
  v.field("m", p.m, {.meaning = "rows of A and c", .range = {1, most}, .required = true, .runtime = true});
  v.field("n", p.n, {.meaning = "columns of B and c", .range = {1, most}, .required = true, .runtime = true});
  v.field("k", p.k, {.meaning = "columns of A, rows of B", .range = {1, most}, .required = true, .runtime = true});
  v.field("dtype", p.dtype, {.meaning = "element type of a and b", .choices = float_dtypes});
  v.field("out_dtype", p.out_dtype,
          {.meaning = "element type of c: dtype or f32", .choices = float_dtypes, .follows = {"dtype", p.dtype}});
  v.field("transpose_a", p.transpose_a, {.meaning = "a holds the transpose of A"});
  v.field("transpose_b", p.transpose_b, {.meaning = "b holds the transpose of B"});
  const auto stride = [&](std::string_view name, auto& field, std::string_view meaning, std::string_view text,
                          std::int64_t cols) {
    FieldFacts facts;
    facts.meaning = meaning;
    facts.range = {cols, std::int64_t{1} << 40};
    facts.follows = {text, cols};
    facts.runtime = true;
    v.field(name, field, facts);
  };
  stride("a_row_stride", p.a_row_stride, "elements from one row of a to the next", p.transpose_a ? "m" : "k", p.a_cols());
  stride("b_row_stride", p.b_row_stride, "elements from one row of b to the next", p.transpose_b ? "k" : "n", p.b_cols());
  stride("c_row_stride", p.c_row_stride, "elements from one row of c to the next", "n", p.n);
  v.field("a_alignment", p.a_alignment, alignment_facts("bytes that the address of a is a multiple of", p.dtype));
  v.field("b_alignment", p.b_alignment, alignment_facts("bytes that the address of b is a multiple of", p.dtype));
  v.field("c_alignment", p.c_alignment, alignment_facts("bytes that the address of c is a multiple of", p.output()));
  v.option("accumulate", p.accumulate, {.meaning = "adds to c"});
  v.option("factor", p.factor, {.meaning = "multiplies with a float32 in device memory"});
  v.option("row_factors", p.row_factors, {.meaning = "multiplies each row with a float32"});
  v.option("bias", p.bias, {.meaning = "adds a float32 to each column"});

  const Extent m = size(p.m), n = size(p.n), k = size(p.k);
  const auto matrix = [](std::string_view name, DType dtype, const Extent& rows, const Extent& cols, std::int64_t row_stride,
                         const std::int64_t& alignment) {
    return ArrayFacts{
        .name = name, .dtype = dtype, .shape = {rows, cols}, .strides = {row_stride, 1}, .alignment = &alignment};
  };
  const auto floats = [](std::string_view name, const Extent& extent, bool present) {
    return ArrayFacts{.name = name, .dtype = DType::f32, .shape = {extent}, .present = present};
  };
  v.array(arrays.a, matrix("a", p.dtype, p.transpose_a ? k : m, p.transpose_a ? m : k, p.a_stride(), p.a_alignment));
  v.array(arrays.b, matrix("b", p.dtype, p.transpose_b ? n : k, p.transpose_b ? k : n, p.b_stride(), p.b_alignment));
  v.array(arrays.factor, floats("factor", fixed(1), p.factor));
  v.array(arrays.row_factors, floats("row_factors", m, p.row_factors));
  v.array(arrays.bias, floats("bias", n, p.bias));
  ArrayFacts c = matrix("c", p.output(), m, n, p.c_stride(), p.c_alignment);
  c.role = p.accumulate ? Role::in_out : Role::output;
  v.array(arrays.c, c);
}

enum class Variant : std::uint8_t { wgmma, simt };

constexpr std::int64_t max_splits = 8;

/// The configuration of a product. wgmma: sm_90a's tensor cores for f16 and bf16; simt: any architecture and alignment.
struct ProductConfig {
  Variant variant = Variant::simt;
  std::int64_t group = 8;  ///< rows of tiles that are computed together
  // wgmma
  std::int64_t consumers = 2, blocks_m = 1, tile_n = 256, stages = 4, cluster_m = 1, cluster_n = 1;
  std::int64_t splits = 1;  ///< parts of k
  // simt
  std::int64_t tile = 64, tile_k = 16;

  static ProductConfig parse(const Config& config);
  Config to_config() const;
  std::int64_t rows() const noexcept { return variant == Variant::wgmma ? 64 * blocks_m * consumers : tile; }
  std::int64_t cols() const noexcept { return variant == Variant::wgmma ? tile_n : tile; }
  std::int64_t cluster() const noexcept { return cluster_m * cluster_n; }
  std::int64_t threads() const noexcept { return variant == Variant::wgmma ? 128 * (consumers + 1) : 256; }
  /// Shared memory in bytes, as matmul/wgmma_tiles.cuh and matmul/simt.cuh lay it out: of the product, and of the slabs of
  /// c.
  std::int64_t smem_bytes() const noexcept;
  std::int64_t slab_bytes() const noexcept { return consumers * 4 * 2 * 16 * 128; }
  bool operator==(const ProductConfig&) const = default;
};

/// Throws Error(invalid_argument) if a matrix has more tiles than kernels count. `extents`: the fields of its sizes.
void check_tiles(std::string_view extents, std::int64_t rows, std::int64_t columns);

/// Checks and completes configurations.
std::string why_invalid(const ProductConfig& config, const ProductProblem& problem, const DeviceInfo& device);
/// `max_columns`: of a warpgroup's tile of 64 rows, whose sums take half as many registers.
ProductConfig default_config(const ProductProblem& problem, const DeviceInfo& device, std::int64_t max_columns = 256);
/// Throws as ParsedProblem::complete_config() does. `start`: the default of the operation.
Config complete_config(const ProductProblem& problem, const DeviceInfo& device, const Config& partial, ProductConfig start);
/// Returns the candidates, `start` first.
std::vector<Config> search_space(const ProductProblem& problem, const DeviceInfo& device, Effort effort,
                                 const ProductConfig& start);
std::vector<FieldInfo> config_fields();

/// Returns the array of this name, or nullptr.
const HostArray* find(std::span<const HostArray> arrays, std::string_view name);

/// Returns why TMA cannot load or store the arrays; empty if it can.
std::string why_not_tma(const ProductProblem& problem);

/// Returns the generated constants `shape` and `config`, and the instruction that the kernel needs.
std::string constants(const ProductProblem& problem, const ProductConfig& config);

/// Fills sizes and strides.
void fill(const ProductProblem& problem, const ProductConfig& config, MatmulParams& params);

/// Returns the launch of `entry`, the product. With wgmma, adds the tensor maps of the arrays with these positions in
/// plan.pointers; c of -1 is not written. MatmulWgmmaParams is at the beginning of the plan's parameters.
struct Positions {
  int a, b, c;
};
/// Returns the number of blocks' tiles, those of clusters that reach beyond the last row or column included.
std::int64_t block_tiles(const ProductProblem& problem, const ProductConfig& config);
/// The workspace of a product with a split k, which the caller adds.
std::int64_t workspace_bytes(const ProductProblem& problem, const ProductConfig& config);
KernelLaunch add_product(const char* entry, const ProductProblem& problem, const ProductConfig& config,
                         const DeviceInfo& device, const Positions& positions, LaunchPlan& plan);

}  // namespace tunesmith::matmul

namespace tunesmith {

template <>
inline constexpr std::array<std::string_view, 2> enum_names<matmul::Variant>{"wgmma", "simt"};

}  // namespace tunesmith
