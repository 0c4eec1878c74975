#include "templates/matmul/op.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "templates/folded_grid.h"
#include "templates/matmul/wgmma_params.cuh"
#include "templates/source_text.h"
#include "tunesmith/error.h"

namespace tunesmith::matmul {
namespace {

static_assert(sizeof(TensorMap) == LaunchPlan::TensorMap::bytes && alignof(TensorMap) == LaunchPlan::TensorMap::alignment);

std::int64_t tiles(std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile; }

std::string why_not(const ProductConfig& c, const ProductProblem& p, const DeviceInfo& device) {
  if (c.variant == Variant::wgmma) {
    if (tunesmith::name(device.arch) != "sm_90a") return "wgmma needs sm_90a; the device is " + tunesmith::name(device.arch);
    if (std::string reason = why_not_tma(p); !reason.empty()) return reason;
    if (c.blocks_m * c.tile_n > 256) return "blocks_m x tile_n sums exceed the registers of a warpgroup";
    if (c.cluster() > device.max_cluster_blocks)
      return "cluster_m x cluster_n exceeds " + std::to_string(device.max_cluster_blocks) + " blocks";
    if (c.rows() / c.cluster_n % 64 != 0 || c.tile_n / c.cluster_m % 64 != 0)
      return "the blocks of a cluster must load multiples of 64 rows and columns each";
  } else if (c.tile % 16 != 0) {
    return "tile must be a multiple of 16";
  }
  if (c.smem_bytes() > device.smem_bytes_per_block)
    return "the tiles need " + std::to_string(c.smem_bytes()) + " bytes of shared memory; a block has " +
           std::to_string(device.smem_bytes_per_block);
  if (tiles(p.m, c.rows()) * tiles(p.n, c.cols()) > ProductProblem::most) return "there are too many tiles";
  return {};
}

std::string flag(std::string_view name, bool value) { return member(name, value); }

}  // namespace

void describe(const ProductConfig& c, Description& d) {
  const auto number = [&](std::string_view name, const std::int64_t& field, std::string_view meaning, std::int64_t least,
                          std::int64_t most, std::int64_t step, bool power) {
    FieldFacts facts;
    facts.meaning = meaning;
    facts.range = {least, most};
    facts.step = step;
    facts.power_of_two = power;
    facts.required = true;
    d.field(name, field, facts);
  };
  d.field("variant", c.variant, {.meaning = "the kernel", .required = true});
  number("group", c.group, "rows of tiles that are computed together", 1, 1024, 1, true);
  if (c.variant == Variant::wgmma) {
    number("consumers", c.consumers, "warpgroups that multiply", 1, 2, 1, false);
    number("blocks_m", c.blocks_m, "blocks of 64 rows of a warpgroup", 1, 2, 1, false);
    number("tile_n", c.tile_n, "columns of a tile", 64, 256, 64, false);
    number("stages", c.stages, "tiles of 64 elements of k in shared memory", 2, 8, 1, false);
    number("cluster_m", c.cluster_m, "blocks of a cluster that share a tile of B", 1, 4, 1, true);
    number("cluster_n", c.cluster_n, "blocks of a cluster that share a tile of A", 1, 4, 1, true);
  } else {
    number("tile", c.tile, "rows and columns of a tile", 16, 128, 16, false);
    number("tile_k", c.tile_k, "elements of k in shared memory", 8, 32, 1, true);
  }
}

ProductConfig ProductConfig::parse(const Config& config) { return read_config<ProductConfig>(config.fields); }
Config ProductConfig::to_config() const { return {config_fields(*this)}; }

std::int64_t ProductConfig::smem_bytes() const noexcept {
  if (variant == Variant::simt) return 2 * tile_k * (tile + 1) * 4;
  return stages * ((rows() + cols()) * 128 + 16) + consumers * 4 * 2 * 16 * 128;
}

std::vector<FieldInfo> config_fields_of(const ProductProblem&) {
  const ProductConfig wgmma{.variant = Variant::wgmma}, simt{};
  std::vector<FieldInfo> all = Description([&](Description& d) { describe(wgmma, d); }).field_infos();
  for (FieldInfo& info : Description([&](Description& d) { describe(simt, d); }).field_infos())
    if (std::ranges::find(all, info.name, &FieldInfo::name) == all.end()) all.push_back(std::move(info));
  return all;
}

void complete(ProductProblem& p) {
  if (p.output() != p.dtype && p.output() != DType::f32)
    throw Error(ErrorCode::invalid_argument, "out_dtype is '", name(p.output()), "'; allowed: ", name(p.dtype), ", f32");
}

std::string why_not_tma(const ProductProblem& p) {
  if (p.dtype == DType::f32) return "wgmma multiplies f16 and bf16; dtype is f32";
  if (std::min({p.a_alignment, p.b_alignment, p.c_alignment}) < 16) return "TMA needs arrays that are aligned to 16 bytes";
  const std::int64_t in = size_of(p.dtype), out = size_of(p.output());
  if (p.a_stride() * in % 16 != 0 || p.b_stride() * in % 16 != 0 || p.c_stride() * out % 16 != 0)
    return "TMA needs row strides that are multiples of 16 bytes";
  // A store completes the last 16 bytes of a row.
  if (p.n * out % 16 != 0) return "TMA needs rows of c that are multiples of 16 bytes";
  return {};
}

KeyParts ParsedProduct::key() const {
  KeyParts parts;
  parts.problem_class = std::string(tunesmith::name(p_.dtype)) + "," + std::string(tunesmith::name(p_.output())) +
                        (p_.transpose_a ? ",ta" : "") + (p_.transpose_b ? ",tb" : "") + (p_.accumulate ? ",add" : "") +
                        (p_.factor ? ",factor" : "") + (p_.row_factors ? ",row_factors" : "") + (p_.bias ? ",bias" : "") +
                        (why_not_tma(p_).empty() ? ",tma" : "") + ",k=" + std::to_string(p_.k);
  parts.n_cols = p_.n;
  parts.rows_bucket = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(p_.m)));
  return parts;
}

Cost ParsedProduct::cost() const {
  const auto m = static_cast<double>(p_.m), n = static_cast<double>(p_.n), k = static_cast<double>(p_.k);
  const auto in = static_cast<double>(size_of(p_.dtype)), c = m * n * static_cast<double>(size_of(p_.output()));
  return {(m * k + k * n) * in + (p_.accumulate ? c : 0), c, 2 * m * n * k};
}

ProductConfig ParsedProduct::default_of(const DeviceInfo& device) const {
  ProductConfig config{.variant = Variant::wgmma};
  if (p_.m > 64 * config.consumers && device.max_cluster_blocks >= 2) config.cluster_m = 2;
  if (why_not(config, p_, device).empty()) return config;
  return {};
}

std::string ParsedProduct::why_invalid_of(const DeviceInfo& device, const ProductConfig& config) const {
  return why_not(config, p_, device);
}

Config ParsedProduct::complete_config(const DeviceInfo& device, const Config& partial) const {
  ProductConfig start = default_of(device);
  if (const auto* const variant = partial.fields.find("variant"))
    if (const Variant given = read_config<ProductConfig>([&] {
                                Fields fields = ProductConfig{}.to_config().fields;
                                if (*variant == Value{std::string("wgmma")})
                                  fields = ProductConfig{.variant = Variant::wgmma}.to_config().fields;
                                fields.set("variant", *variant);
                                return fields;
                              }())
                                  .variant;
        given != start.variant)
      start = {.variant = given};
  Config config = start.to_config();
  for (const auto& [field, value] : partial.fields) config.fields.set(field, value);
  if (const std::string reason = why_not(ProductConfig::parse(config), p_, device); !reason.empty())
    throw Error(ErrorCode::invalid_argument, "config '", config.text(), "' cannot be used: ", reason);
  return config;
}

std::vector<Config> ParsedProduct::search_space(const DeviceInfo& device, Effort effort) const {
  std::vector<Config> space{default_config(device)};
  const auto add = [&](const ProductConfig& config) {
    if (!why_not(config, p_, device).empty()) return;
    if (Config named = config.to_config(); std::ranges::find(space, named) == space.end()) space.push_back(std::move(named));
  };
  const bool full = effort == Effort::full;
  struct Tile {
    std::int64_t blocks_m, tile_n, stages;
  };
  for (const auto& [blocks_m, tile_n, stages] : {Tile{1, 256, 4}, Tile{2, 128, 4}, Tile{1, 192, 4}, Tile{1, 128, 6}})
    for (const auto& [cluster_m, cluster_n] : {std::pair{2, 1}, {1, 2}, {1, 1}})
      for (const std::int64_t group : full ? std::vector<std::int64_t>{4, 8, 16, 32} : std::vector<std::int64_t>{8, 16})
        add({.variant = Variant::wgmma,
             .group = group,
             .blocks_m = blocks_m,
             .tile_n = tile_n,
             .stages = stages,
             .cluster_m = cluster_m,
             .cluster_n = cluster_n});
  // Tensor cores are an order of magnitude faster; without them, the tile decides.
  if (ProductConfig::parse(space.front()).variant == Variant::simt)
    for (const std::int64_t tile : {32, 64, 128})
      for (const std::int64_t tile_k : {8, 16, 32}) add({.tile = tile, .tile_k = tile_k});
  return space;
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
  parts.specialized_for = {
      {"specialized for", std::string(tunesmith::name(p_.dtype)) + " to " + std::string(tunesmith::name(p_.output()))},
      {"m, n, k", "any"}};
  std::string text;
  if (wgmma)
    text = "namespace tunesmith {\nTUNESMITH_WGMMA_" + std::string(p_.transpose_a ? "TRANSPOSED_" : "") +
           std::to_string(c.tile_n) + "\n}  // namespace tunesmith\n\n";
  text += "using Element = " + device_type(p_.dtype) + ";\nusing Out = " + device_type(p_.output()) +
          ";\n\nstatic constexpr tunesmith::MatmulShape shape = {\n" + flag("transpose_a", p_.transpose_a) +
          flag("transpose_b", p_.transpose_b) + flag("accumulate", p_.accumulate) + flag("factor", p_.factor) +
          flag("row_factors", p_.row_factors) + flag("bias", p_.bias) + "};\n\n";
  if (wgmma)
    text += "static constexpr tunesmith::MatmulWgmmaConfig config = {\n" + member("consumers", c.consumers) +
            member("blocks_m", c.blocks_m) + member("tile_n", c.tile_n) + member("stages", c.stages) +
            member("cluster_m", c.cluster_m) + member("cluster_n", c.cluster_n) +
            "};\n\nstatic_assert(tunesmith::MatmulWgmmaTiles<Out, config>::smem_bytes == " + std::to_string(c.smem_bytes()) +
            ", \"the host allocates this much\");\n";
  else
    text += "static constexpr tunesmith::MatmulSimtConfig config = {\n" + member("tile", c.tile) +
            member("tile_k", c.tile_k) + "};\n\n";
  const std::string params = wgmma ? "MatmulWgmmaParams" : "MatmulParams";
  text += "static_assert(sizeof(tunesmith::" + params +
          ") == " + std::to_string(wgmma ? sizeof(MatmulWgmmaParams) : sizeof(MatmulParams)) +
          ", \"the host fills the parameters by this layout\");\n";
  parts.constants = text;
  parts.kernels = "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(c.threads()) +
                  ", 1)\nmatmul(const __grid_constant__ tunesmith::" + params + " params) {\n  tunesmith::" + parts.kernel +
                  "<Element, Out, shape, config>(params);\n}\n";
  return parts;
}

LaunchPlan ParsedProduct::plan_of(const ProductConfig& c, const DeviceInfo& device) const {
  const bool wgmma = c.variant == Variant::wgmma;
  MatmulWgmmaParams params{};
  static_assert(offsetof(MatmulWgmmaParams, product) == 0);
  MatmulParams& product = params.product;
  product.a_row_stride = p_.a_stride();
  product.b_row_stride = p_.b_stride();
  product.c_row_stride = p_.c_stride();
  product.m = static_cast<int>(p_.m);
  product.n = static_cast<int>(p_.n);
  product.k = static_cast<int>(p_.k);
  product.m_tiles = static_cast<int>(tiles(p_.m, c.rows() * (wgmma ? c.cluster_m : 1)));
  product.n_tiles = static_cast<int>(tiles(p_.n, c.cols() * (wgmma ? c.cluster_n : 1)));
  product.group = static_cast<int>(c.group);
  LaunchPlan plan;
  plan.params.resize(wgmma ? sizeof params : sizeof product);
  std::memcpy(plan.params.data(), &params, plan.params.size());

  const auto offset_of = [](std::string_view name) -> std::size_t {
    if (name == "a") return offsetof(MatmulParams, a);
    if (name == "b") return offsetof(MatmulParams, b);
    if (name == "c") return offsetof(MatmulParams, c);
    if (name == "factor") return offsetof(MatmulParams, factor);
    return name == "bias" ? offsetof(MatmulParams, bias) : offsetof(MatmulParams, row_factors);
  };
  for (const ArrayInfo& array : array_view())
    plan.pointers.push_back({array.name, static_cast<std::uint32_t>(offset_of(array.name)),
                             static_cast<std::uint32_t>(array.alignment), array.extent_bytes(), array.output, false});

  const std::int64_t all = std::int64_t{product.m_tiles} * product.n_tiles;
  if (!wgmma) {
    plan.kernels.push_back(folded_launch("matmul", all, c.threads(), c.smem_bytes()));
    return plan;
  }
  const auto map = [&](std::string_view name, std::size_t offset, DType dtype, std::int64_t cols, std::int64_t rows,
                       std::int64_t stride, std::int64_t box_rows) {
    LaunchPlan::TensorMap made;
    made.array =
        static_cast<int>(std::ranges::find(plan.pointers, name, &LaunchPlan::Pointer::array) - plan.pointers.begin());
    made.offset = static_cast<std::uint32_t>(offset);
    made.dtype = dtype;
    made.rank = 4;
    made.sizes = {cols, rows, 1, 1};
    made.strides_bytes = {stride * size_of(dtype), 16, 16};
    made.box = {128 / size_of(dtype), box_rows, 1, 1};
    made.swizzle_bytes = 128;
    plan.tensor_maps.push_back(made);
  };
  map("a", offsetof(MatmulWgmmaParams, a), p_.dtype, p_.a_cols(), p_.transpose_a ? p_.k : p_.m, p_.a_stride(),
      p_.transpose_a ? 64 : c.rows() / c.cluster_n);
  map("b", offsetof(MatmulWgmmaParams, b), p_.dtype, p_.b_cols(), p_.transpose_b ? p_.n : p_.k, p_.b_stride(),
      p_.transpose_b ? c.cols() / c.cluster_m : 64);
  map("c", offsetof(MatmulWgmmaParams, c), p_.output(), p_.n, p_.m, p_.c_stride(), 16);
  KernelLaunch launch;
  launch.entry = "matmul";
  const std::int64_t clusters = std::clamp<std::int64_t>(device.sm_count / c.cluster(), 1, all);
  launch.grid = {static_cast<std::uint32_t>(clusters * c.cluster()), 1, 1};
  launch.block = {static_cast<std::uint32_t>(c.threads()), 1, 1};
  if (c.cluster() > 1) launch.cluster = {static_cast<std::uint32_t>(c.cluster()), 1, 1};
  launch.dynamic_smem_bytes = c.smem_bytes();
  plan.kernels.push_back(launch);
  return plan;
}

Problem ParsedProduct::verification_problem() const {
  Problem small = problem();
  ProductProblem p;
  // Ragged, with the alignment of rows that the problem has.
  p.m = 328 + p_.m % 8, p.n = 456 + p_.n % 8, p.k = 200 + p_.k % 8;
  p.transpose_a = p_.transpose_a, p.transpose_b = p_.transpose_b;
  const auto stride = [](std::int64_t cols, std::int64_t of) { return of % 8 == 0 ? (cols + 7) / 8 * 8 : cols; };
  small.fields.set("m", p.m);
  small.fields.set("n", p.n);
  small.fields.set("k", p.k);
  small.fields.set("a_row_stride", stride(p.a_cols(), p_.a_stride()));
  small.fields.set("b_row_stride", stride(p.b_cols(), p_.b_stride()));
  small.fields.set("c_row_stride", stride(p.n, p_.c_stride()));
  return small;
}

}  // namespace tunesmith::matmul
