#include "templates/matmul/product.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "templates/folded_grid.h"
#include "templates/matmul/wgmma_params.cuh"
#include "templates/source_text.h"
#include "tunesmith/error.h"

namespace tunesmith::matmul {
namespace {

static_assert(sizeof(TensorMap) == LaunchPlan::TensorMap::bytes && alignof(TensorMap) == LaunchPlan::TensorMap::alignment);

std::int64_t tiles(std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile; }

/// Split products are small: larger ones have enough tiles.
constexpr std::int64_t max_workspace = std::int64_t{128} << 20;

/// An estimate in clocks: waves of blocks, each with its products, the time to fill and drain its pipeline, and, of split
/// products, the sums' way through memory. Products of smaller tiles are slower, because shared memory bounds them.
double clocks_of(const ProductProblem& p, const ProductConfig& c, const DeviceInfo& device) {
  const double rate = c.tile_n * c.blocks_m == 256 ? (c.blocks_m == 1 ? 1.0 : 0.985) : c.tile_n == 192 ? 0.97 : 0.85;
  const std::int64_t clusters = std::max<std::int64_t>(device.sm_count / c.cluster(), 1);
  const auto waves = static_cast<double>(tiles(block_tiles(p, c) / c.cluster() * c.splits, clusters));
  const auto area = static_cast<double>(c.rows() * c.cols());
  const double products = area * static_cast<double>(tiles(tiles(p.k, 64), c.splits)) / 32 / rate;
  const double parts = c.splits == 1 ? 0 : 8000 + 2 * static_cast<double>(workspace_bytes(p, c)) / 3000;
  return waves * (products + 1500 + area / 16) + parts;
}

}  // namespace

std::int64_t block_tiles(const ProductProblem& p, const ProductConfig& c) {
  return tiles(p.m, c.rows() * c.cluster_m) * tiles(p.n, c.cols() * c.cluster_n) * c.cluster();
}

void check_tiles(std::string_view extents, std::int64_t rows, std::int64_t columns) {
  if (tiles(rows, 64) * tiles(columns, 64) > ProductProblem::most)
    throw Error(ErrorCode::invalid_argument, extents, " is ", rows, " x ", columns, "; allowed: at most ",
                ProductProblem::most, " tiles of 64 x 64");
}

std::string why_invalid(const ProductConfig& c, const ProductProblem& p, const DeviceInfo& device) {
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
  if (c.splits > 1) {
    if (!p.may_split) return "splits need a kernel that adds the parts, which only matmul has";
    if (c.splits > tiles(p.k, 64)) return "there are fewer steps of 64 elements of k than splits";
    if (workspace_bytes(p, c) > max_workspace)
      return "the parts need " + std::to_string(workspace_bytes(p, c)) + " bytes; allowed: " + std::to_string(max_workspace);
  }
  if (c.smem_bytes() > device.smem_bytes_per_block)
    return "the tiles need " + std::to_string(c.smem_bytes()) + " bytes of shared memory; a block has " +
           std::to_string(device.smem_bytes_per_block);
  if (tiles(p.m, c.rows()) * tiles(p.n, c.cols()) > ProductProblem::most) return "there are too many tiles";
  return {};
}

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
    d.field("splits", c.splits, {.meaning = "parts of k, which a second kernel adds", .range = {1, max_splits}});
  } else {
    number("tile", c.tile, "rows and columns of a tile", 16, 128, 16, false);
    number("tile_k", c.tile_k, "elements of k in shared memory", 8, 32, 1, true);
  }
}

ProductConfig ProductConfig::parse(const Config& config) { return read_config<ProductConfig>(config.fields); }
Config ProductConfig::to_config() const { return {tunesmith::config_fields(*this)}; }

std::int64_t ProductConfig::smem_bytes() const noexcept {
  if (variant == Variant::simt) return 2 * tile_k * (tile + 1) * 4;
  return stages * ((rows() + cols()) * 128 + 16) + slab_bytes();
}

std::vector<FieldInfo> config_fields() {
  const ProductConfig wgmma{.variant = Variant::wgmma}, simt{};
  std::vector<FieldInfo> all = Description([&](Description& d) { describe(wgmma, d); }).field_infos();
  for (FieldInfo& info : Description([&](Description& d) { describe(simt, d); }).field_infos())
    if (std::ranges::find(all, info.name, &FieldInfo::name) == all.end()) all.push_back(std::move(info));
  return all;
}

const HostArray* find(std::span<const HostArray> arrays, std::string_view name) {
  const auto found = std::ranges::find_if(arrays, [&](const HostArray& array) { return array.info.name == name; });
  return found == arrays.end() ? nullptr : &*found;
}

std::string why_not_tma(const ProductProblem& p) {
  if (p.dtype == DType::f32) return "wgmma multiplies f16 and bf16; dtype is f32";
  if (std::min({p.a_alignment, p.b_alignment, p.c_alignment}) < 16) return "TMA needs arrays that are aligned to 16 bytes";
  const std::int64_t in = size_of(p.dtype), out = size_of(p.output());
  if (p.a_stride() * in % 16 != 0 || p.b_stride() * in % 16 != 0 || p.c_stride() * out % 16 != 0)
    return "TMA needs row strides that are multiples of 16 bytes";
  // A store completes the last 16 bytes of a row.
  if (p.c_cols() * out % 16 != 0) return "TMA needs rows of c that are multiples of 16 bytes";
  return {};
}

std::int64_t workspace_bytes(const ProductProblem& p, const ProductConfig& c) {
  return c.splits == 1 ? 0 : c.splits * block_tiles(p, c) * c.rows() * c.cols() * 4;
}

namespace {

/// Rows of clusters' tiles in a group, so that the tiles of the clusters that run at once are nearest to a square, whose
/// sides are read from memory. Short measurements do not show what the memory's power costs when power limits a kernel.
std::int64_t square_group(const ProductConfig& c, const DeviceInfo& device) {
  const auto clusters = static_cast<double>(std::max<std::int64_t>(device.sm_count / c.cluster(), 1));
  const double rows =
      std::sqrt(clusters * static_cast<double>(c.cols() * c.cluster_n) / static_cast<double>(c.rows() * c.cluster_m));
  return std::int64_t{1} << std::clamp<std::int64_t>(std::lround(std::log2(rows)), 0, 10);
}

/// Configurations with each tile, and as many parts of k as are fastest by the estimate.
std::vector<ProductConfig> of_every_tile(const ProductProblem& p, const DeviceInfo& device) {
  struct Tile {
    std::int64_t blocks_m, tile_n, stages;
  };
  std::vector<ProductConfig> all;
  for (const auto& [blocks_m, tile_n, stages] : {Tile{1, 256, 4}, Tile{2, 128, 4}, Tile{1, 192, 4}, Tile{1, 128, 6}})
    for (const auto& [cluster_m, cluster_n] : {std::pair{2, 1}, {1, 2}, {1, 1}}) {
      std::optional<ProductConfig> best;
      for (std::int64_t splits = 1; splits <= max_splits; ++splits) {
        ProductConfig config{.variant = Variant::wgmma,
                             .blocks_m = blocks_m,
                             .tile_n = tile_n,
                             .stages = stages,
                             .cluster_m = cluster_m,
                             .cluster_n = cluster_n,
                             .splits = splits};
        config.group = square_group(config, device);
        if (why_invalid(config, p, device).empty() &&
            (!best || clocks_of(p, config, device) < 0.98 * clocks_of(p, *best, device)))
          best = config;
      }
      if (best) all.push_back(*best);
    }
  return all;
}

}  // namespace

ProductConfig default_config(const ProductProblem& p, const DeviceInfo& device, std::int64_t max_columns) {
  std::vector<ProductConfig> all = of_every_tile(p, device);
  std::erase_if(all, [&](const ProductConfig& c) { return c.blocks_m * c.tile_n > max_columns; });
  if (all.empty()) return {};
  return *std::ranges::min_element(all, {}, [&](const ProductConfig& c) { return clocks_of(p, c, device); });
}

Config complete_config(const ProductProblem& p, const DeviceInfo& device, const Config& partial, ProductConfig start) {
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
  if (const std::string reason = why_invalid(ProductConfig::parse(config), p, device); !reason.empty())
    throw Error(ErrorCode::invalid_argument, "config '", config.text(), "' cannot be used: ", reason);
  return config;
}

std::vector<Config> search_space(const ProductProblem& p, const DeviceInfo& device, Effort effort,
                                 const ProductConfig& start) {
  std::vector<Config> space{start.to_config()};
  const auto add = [&](const ProductConfig& config) {
    if (!why_invalid(config, p, device).empty()) return;
    if (Config named = config.to_config(); std::ranges::find(space, named) == space.end()) space.push_back(std::move(named));
  };
  for (ProductConfig config : of_every_tile(p, device)) {
    add(config);
    if (effort != Effort::full) continue;
    const std::int64_t group = config.group;
    for (const std::int64_t other : {group / 2, 2 * group}) {
      config.group = std::clamp<std::int64_t>(other, 1, 1024);
      add(config);
    }
  }
  // Tensor cores are an order of magnitude faster; without them, the tile decides.
  if (ProductConfig::parse(space.front()).variant == Variant::simt)
    for (const std::int64_t tile : {32, 64, 128})
      for (const std::int64_t tile_k : {8, 16, 32}) add({.tile = tile, .tile_k = tile_k});
  return space;
}

std::string constants(const ProductProblem& p, const ProductConfig& c) {
  const bool wgmma = c.variant == Variant::wgmma;
  std::string text;
  if (wgmma)
    text = "namespace tunesmith {\nTUNESMITH_WGMMA_" + std::string(p.transpose_a ? "TRANSPOSED_" : "") +
           std::to_string(c.tile_n) + "\n}  // namespace tunesmith\n\n";
  text += "using Element = " + device_type(p.dtype) + ";\nusing Out = " + device_type(p.output()) +
          ";\n\nstatic constexpr tunesmith::MatmulShape shape = {\n" + member("transpose_a", p.transpose_a) +
          member("transpose_b", p.transpose_b) + member("accumulate", p.accumulate) + member("factor", p.factor) +
          member("row_factors", p.row_factors) + member("bias", p.bias) + "};\n\n";
  if (wgmma)
    return text + "static constexpr tunesmith::MatmulWgmmaConfig config = {\n" + member("consumers", c.consumers) +
           member("blocks_m", c.blocks_m) + member("tile_n", c.tile_n) + member("stages", c.stages) +
           member("cluster_m", c.cluster_m) + member("cluster_n", c.cluster_n) + member("splits", c.splits) +
           "};\n\nstatic_assert(tunesmith::MatmulWgmmaTiles<Out, config>::smem_bytes == " + std::to_string(c.smem_bytes()) +
           ", \"the host allocates this much\");\n";
  return text + "static constexpr tunesmith::MatmulSimtConfig config = {\n" + member("tile", c.tile) +
         member("tile_k", c.tile_k) + "};\n\n";
}

void fill(const ProductProblem& p, const ProductConfig& c, MatmulParams& params) {
  const bool wgmma = c.variant == Variant::wgmma;
  params.a_row_stride = p.a_stride();
  params.b_row_stride = p.b_stride();
  params.c_row_stride = p.c_stride();
  params.m = static_cast<int>(p.m);
  params.n = static_cast<int>(p.n);
  params.k = static_cast<int>(p.k);
  params.c_columns = static_cast<int>(p.c_cols());
  params.m_tiles = static_cast<int>(tiles(p.m, c.rows() * (wgmma ? c.cluster_m : 1)));
  params.n_tiles = static_cast<int>(tiles(p.n, c.cols() * (wgmma ? c.cluster_n : 1)));
  params.group = static_cast<int>(c.group);
}

KernelLaunch add_product(const char* entry, const ProductProblem& p, const ProductConfig& c, const DeviceInfo& device,
                         const Positions& positions, LaunchPlan& plan) {
  MatmulParams params{};
  fill(p, c, params);
  const std::int64_t all = std::int64_t{params.m_tiles} * params.n_tiles;
  if (c.variant == Variant::simt) return folded_launch(entry, all, c.threads(), c.smem_bytes());
  const auto map = [&](int position, std::size_t offset, DType dtype, std::int64_t cols, std::int64_t rows,
                       std::int64_t stride, std::int64_t box_rows) {
    if (position < 0) return;
    LaunchPlan::TensorMap made;
    made.array = position;
    made.offset = static_cast<std::uint32_t>(offset);
    made.dtype = dtype;
    made.rank = 4;
    made.sizes = {cols, rows, 1, 1};
    made.strides_bytes = {stride * size_of(dtype), 16, 16};
    made.box = {128 / size_of(dtype), box_rows, 1, 1};
    made.swizzle_bytes = 128;
    plan.tensor_maps.push_back(made);
  };
  map(positions.a, offsetof(MatmulWgmmaParams, a), p.dtype, p.a_cols(), p.transpose_a ? p.k : p.m, p.a_stride(),
      p.transpose_a ? 64 : c.rows() / c.cluster_n);
  map(positions.b, offsetof(MatmulWgmmaParams, b), p.dtype, p.b_cols(), p.transpose_b ? p.n : p.k, p.b_stride(),
      p.transpose_b ? c.cols() / c.cluster_m : 64);
  map(positions.c, offsetof(MatmulWgmmaParams, c), p.output(), p.c_cols(), p.m, p.c_stride(), 16);
  KernelLaunch launch;
  launch.entry = entry;
  const std::int64_t clusters = std::clamp<std::int64_t>(device.sm_count / c.cluster(), 1, all * c.splits);
  launch.grid = {static_cast<std::uint32_t>(clusters * c.cluster()), 1, 1};
  launch.block = {static_cast<std::uint32_t>(c.threads()), 1, 1};
  if (c.cluster() > 1) launch.cluster = {static_cast<std::uint32_t>(c.cluster()), 1, 1};
  launch.dynamic_smem_bytes = c.smem_bytes();
  return launch;
}

}  // namespace tunesmith::matmul
