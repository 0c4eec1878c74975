// Constants and entry points of the generated attention kernels, and how they are launched.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <set>

#include "templates/array_places.h"
#include "templates/attention/op.h"
#include "templates/attention/search/config.h"
#include "templates/attention/search/split_config.h"
#include "templates/attention/source/block_mask.h"
#include "templates/attention/source/kernel_source.h"
#include "templates/attention/source/kv_layout.h"
#include "templates/attention/source/modification.h"
#include "templates/attention/wgmma_params.cuh"
#include "templates/folded_grid.h"
#include "templates/source_text.h"

namespace tunesmith {

using namespace attention;

namespace {

static_assert(sizeof(TensorMap) == LaunchPlan::TensorMap::bytes && alignof(TensorMap) == LaunchPlan::TensorMap::alignment);

std::string asserts(const std::string& what, std::int64_t value, const std::string& why) {
  return "static_assert(tunesmith::" + what + " == " + std::to_string(value) + ", \"" + why + "\");\n";
}

/// The kernel's argument: its type, the parts that the kernel's function takes, the member that all kernels take, and where
/// the parameters of dropout, of pages, or of scales are.
struct Argument {
  const char *type, *passed, *attention;
  std::size_t bytes, dropout_at = 0, pages_at = 0, scales_at = 0;
};
Argument argument_of(const TypedConfig& config, const Settings& settings) {
  if (config.variant == Variant::wgmma) {
    const char *const passed = "params.wgmma", *const attention = "params.wgmma.attention";
    if (settings.dropout > 0)
      return {.type = "WgmmaDropoutParams",
              .passed = passed,
              .attention = attention,
              .bytes = sizeof(WgmmaDropoutParams),
              .dropout_at = offsetof(WgmmaDropoutParams, dropout)};
    if (settings.kv_lengths)
      return {.type = "WgmmaPagedParams",
              .passed = passed,
              .attention = attention,
              .bytes = sizeof(WgmmaPagedParams),
              .pages_at = offsetof(WgmmaPagedParams, pages)};
    return {"WgmmaParams", "params", "params.attention", sizeof(WgmmaParams)};
  }
  if (settings.dropout > 0)
    return {.type = "AttentionDropoutParams",
            .passed = "params.attention, &params.dropout",
            .attention = "params.attention",
            .bytes = sizeof(AttentionDropoutParams),
            .dropout_at = offsetof(AttentionDropoutParams, dropout)};
  if (settings.kv_scales != KvScales::none)
    return {.type = "AttentionScaledParams",
            .passed = "params.attention",
            .attention = "params.attention",
            .bytes = sizeof(AttentionScaledParams),
            .pages_at = offsetof(AttentionScaledParams, pages),
            .scales_at = offsetof(AttentionScaledParams, scales)};
  if (settings.kv_lengths)
    return {.type = "AttentionPagedParams",
            .passed = "params.attention",
            .attention = "params.attention",
            .bytes = sizeof(AttentionPagedParams),
            .pages_at = offsetof(AttentionPagedParams, pages)};
  return {"AttentionParams", "params", "params", sizeof(Params)};
}

/// Returns where the address of an array is stored in the argument.
std::uint32_t pointer_offset_in(const Argument& argument, const std::string& array, const Settings& settings) {
  const std::array<ArrayPlace, 5> own{{{"rng_state", argument.dropout_at + offsetof(AttentionDropout, rng_state)},
                                       {"block_table", argument.pages_at + offsetof(AttentionPages, block_table)},
                                       {"kv_lengths", argument.pages_at + offsetof(AttentionPages, kv_lengths)},
                                       {"k_scale", argument.scales_at + offsetof(AttentionScales, k)},
                                       {"v_scale", argument.scales_at + offsetof(AttentionScales, v)}}};
  if (std::ranges::find(own, array, &ArrayPlace::array) != own.end()) return offset_of(array, own);
  return pointer_offset(array, settings);
}

/// simt and split compute scores one by one, the others in steps.
FeatureUse features_of(const TypedConfig& config, const Settings& settings) {
  FeatureUse use;
  use.argument = argument_of(config, settings).type;
  use.steps = (config.variant == Variant::wgmma || config.variant == Variant::mma) && settings.score_mod.empty();
  use.sinks = true;
  use.boxes = config.variant == Variant::wgmma;
  use.rows = use.scales = !use.boxes;
  if (config.variant == Variant::mma || config.variant == Variant::split) {
    use.products = true;
    use.chunks = Chunks::aligned;
    for (const Side side : {Side::q, Side::k, Side::v})
      if (settings.vector_bytes(side) < 16) use.chunks = Chunks::unaligned;
  }
  return use;
}

/// Returns whether a second kernel combines the partials.
bool combines_by_kernel(const TypedConfig& config) { return config.variant == Variant::split && config.cluster == 1; }

/// Returns the wgmma instructions: for Q K^T, and for P V (with the columns of ones that sum weights).
std::string wgmma_instructions(const TypedConfig& config, const Settings& settings) {
  std::set<std::int64_t> columns{config.tile_kv, sums_weights(settings) ? 72 : settings.head_dim_v};
  std::string text = "namespace tunesmith {\n";
  for (const std::int64_t count : columns) text += "TUNESMITH_WGMMA_" + std::to_string(count) + "\n";
  return text + "}  // namespace tunesmith\n\n";
}

std::string config_text(const TypedConfig& config, const Settings& settings) {
  std::string kind, members;
  switch (config.variant) {
    case Variant::simt:
      kind = "Simt";
      members = member("threads", config.threads) + member("tile_q", config.tile_q) + member("tile_kv", config.tile_kv);
      break;
    case Variant::wgmma:
      kind = "Wgmma";
      members = member("consumers", config.tile_q / 64) + member("tile_kv", config.tile_kv) +
                member("q_stages", config.q_stages) + member("stages", config.stages) + member("o_slabs", config.o_slabs) +
                member("ping_pong", config.ping_pong);
      break;
    case Variant::mma:
      kind = "Mma";
      members = member("warps", config.warps) + member("tile_q", config.tile_q) + member("tile_kv", config.tile_kv) +
                member("stages", config.stages) + member("q_in_registers", config.q_in_registers);
      break;
    case Variant::split:
      kind = "Split";
      members = member("warps", config.warps) + member("tile_q", config.tile_q) + member("tile_kv", config.tile_kv) +
                member("stages", config.stages);
      if (config.cluster > 1) members += member("cluster", config.cluster);
      break;
  }
  return "static constexpr tunesmith::" + kind + "Config config = {\n" + members + "};\n\n" +
         (config.variant == Variant::wgmma ? wgmma_instructions(config, settings) : "") +
         asserts(kind + "Tiles<shape, config>::smem_bytes", config.smem_bytes(settings),
                 "must equal the shared memory that the host requests") +
         (combines_by_kernel(config) ? asserts("split_combine_threads", split_combine_threads, "the host starts as many")
                                     : "");
}

/// Describes the algorithm of this configuration and its mapping of threads to data.
void describe(const TypedConfig& config, SourceParts& parts) {
  const std::string tile_q = std::to_string(config.tile_q), tile_kv = std::to_string(config.tile_kv);
  const std::string products = "S = Q K^T, P = exp(S - max), O += P V for one K/V tile of " + tile_kv +
                               " keys after another, from last to first, with online softmax";
  switch (config.variant) {
    case Variant::simt:
      parts.algorithm = products + "; Q, K and V in shared memory as float32, products without tensor cores";
      parts.threads =
          "one block of " + std::to_string(config.threads) + " threads per Q tile of " + tile_q + " queries of one head";
      return;
    case Variant::mma:
      parts.algorithm = products + "; tensor cores through mma.sync, S and O in registers, " +
                        std::to_string(config.stages) + " stages of K and V filled by cp.async";
      parts.threads = "one block of " + std::to_string(config.warps) + " warps per Q tile of " + tile_q +
                      " queries of one head; " + std::to_string(config.tile_q / config.warps) +
                      " queries per warp, a quad of lanes per row";
      return;
    case Variant::wgmma:
      parts.algorithm =
          products + "; warp-specialized and persistent: a producer loads Q, K and V through TMA into a ring of " +
          std::to_string(config.stages) + " stages guarded by mbarriers; consumers issue the product with the next" +
          " K before the product with the current V, so that tensor cores stay busy during the exponentials";
      parts.threads = "one block per multiprocessor takes Q tiles of " + tile_q + " queries, from a counter; each of " +
                      std::to_string(config.tile_q / 64) +
                      " consumer warpgroups processes 64 queries, a quad of lanes per row";
      return;
    case Variant::split:
      parts.algorithm =
          products + "; split-KV: the keys are split over blocks, and within a block over its " +
          std::to_string(config.warps) +
          " warps, which run independently; at the end their partials are combined, in shared memory and " +
          (config.cluster > 1 ? "over a cluster of " + std::to_string(config.cluster) + " blocks" : "by a second kernel");
      parts.threads = "the query heads of a key head are packed into tiles of " + tile_q +
                      " rows; each warp multiplies all rows by its K/V tiles, a quad of lanes per row";
      return;
  }
}

/// Returns the number of Q tiles of the longest sequence; for wgmma with packed sequences an upper bound for all sequences
/// (packed_tile_of in wgmma_tiles.cuh).
std::int64_t q_tiles(const TypedConfig& config, const Settings& settings) {
  if (config.variant == Variant::wgmma && settings.varlen) return settings.total_q / config.tile_q + settings.batch;
  const std::int64_t rows = config.variant == Variant::split ? settings.seq_q * settings.group() : settings.seq_q;
  return (rows + config.tile_q - 1) / config.tile_q;
}

Params parameters(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  Params params = parameters_of(settings);
  params.q_tiles = static_cast<std::int32_t>(q_tiles(config, settings));
  params.splits = config.variant == Variant::split ? split_count(config, settings, device) : 1;
  return params;
}

}  // namespace

SourceParts ParsedAttention::parts_of(const TypedConfig& typed) const {
  const Settings& settings = settings_;
  const bool wgmma = typed.variant == Variant::wgmma;
  const bool cluster = typed.variant == Variant::split && typed.cluster > 1;
  const Argument argument = argument_of(typed, settings);
  const std::string variant = std::string(enum_name(typed.variant)) + (cluster ? "_cluster" : ""), params = argument.type;
  SourceParts parts;
  parts.specialized_for = specialized_for(settings);
  describe(typed, parts);
  if (wgmma) parts.min_arch = "sm_90a";
  const bool e4m3 = settings.kv_dtype == DType::e4m3, mma = typed.variant == Variant::mma || typed.variant == Variant::split;
  if (mma) parts.min_arch = cluster ? "sm_90" : e4m3 ? "sm_89" : "sm_80";
  if (e4m3) parts.includes = {"attention/bytes.cuh"};
  if (settings.kv_scales != KvScales::none) parts.includes.emplace_back("attention/scales.cuh");
  parts.includes.push_back("attention/" + variant + ".cuh");
  parts.kernel = "attention_" + variant;
  parts.constants = "using Element = " + device_type(settings.dtype) + ";\n\n" + modification_definition(settings) +
                    shape_text(settings) + features_text(settings, features_of(typed, settings)) +
                    config_text(typed, settings) + "static_assert(sizeof(tunesmith::" + params +
                    ") == " + std::to_string(argument.bytes) + ", \"the host fills the parameters by this layout\");\n";
  std::string bounds = std::to_string(typed.block_threads());
  if (wgmma) bounds += ", 1";
  if (typed.variant == Variant::mma && typed.blocks_per_sm > 1) bounds += ", " + std::to_string(typed.blocks_per_sm);
  parts.kernels = "extern \"C\" __global__ void __launch_bounds__(" + bounds +
                  ")\nattention(const __grid_constant__ tunesmith::" + params + " params) {\n  tunesmith::" + parts.kernel +
                  "<Element, shape, " + modification_type(settings) + ", config>(" + argument.passed + ");\n}\n";
  if (combines_by_kernel(typed))
    parts.kernels += "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(split_combine_threads) +
                     ")\nattention_combine(const __grid_constant__ tunesmith::" + params +
                     " params) {\n  tunesmith::attention_split_combine<Element, shape, config>(" + argument.attention +
                     ");\n}\n";
  parts.kernels += block_mask_entry(settings, params, argument.attention) + modification_entry(settings);
  return parts;
}

namespace {

constexpr std::int64_t counter_bytes = 8;  // for wgmma, at the start of the workspace
static_assert(counter_bytes <= block_mask_at && counter_bytes <= LaunchPlan::workspace_zeros);

void use_tensor_maps(const TypedConfig& config, const Settings& settings, const Params& params, const DeviceInfo& device,
                     LaunchPlan& plan) {
  constexpr std::array<std::size_t, 4> offsets{offsetof(WgmmaParams, q), offsetof(WgmmaParams, k), offsetof(WgmmaParams, v),
                                               offsetof(WgmmaParams, o)};
  for (const Side side : {Side::q, Side::k, Side::v, Side::o}) {
    std::int64_t rows = std::gcd(config.tile_kv, settings.page_size);
    if (side == Side::q) rows = config.tile_q;
    if (side == Side::o) rows = 16;
    const auto number = static_cast<std::size_t>(side);
    const auto found = std::ranges::find(plan.pointers, side_names[number], &LaunchPlan::Pointer::array);
    LaunchPlan::TensorMap map = tensor_map(settings, side, settings.tensor(side), rows);
    map.array = static_cast<int>(found - plan.pointers.begin());
    map.offset = static_cast<std::uint32_t>(offsets[number]);
    plan.tensor_maps.push_back(map);
  }
  const std::int64_t tiles = std::int64_t{params.q_tiles} * settings.heads * settings.extents(Side::q).entries;
  KernelLaunch& launch = plan.kernels.front();
  launch.grid = {static_cast<std::uint32_t>(std::min<std::int64_t>(tiles, device.sm_count)), 1, 1};
  plan.workspace_bytes = counter_bytes;
  plan.workspace_use = WorkspaceUse::zeros;
}

/// Adds the kernel that combines partial results from the workspace.
void combine_splits(const Settings& settings, const Params& params, const DeviceInfo& device, LaunchPlan& plan) {
  const std::int64_t rows = settings.batch * settings.heads * settings.seq_q;
  const std::int64_t part_bytes = (settings.head_dim_v + 2) * 4;
  plan.workspace_bytes = rows * params.splits * part_bytes;
  plan.workspace_use = WorkspaceUse::scratch;
  KernelLaunch combine;
  combine.entry = "attention_combine";
  combine.grid = folded_grid(rows);
  combine.block = {static_cast<std::uint32_t>(split_combine_threads), 1, 1};
  combine.overlaps = device.overlaps_launches();
  plan.kernels.push_back(combine);
}

/// Returns whether the kernel reads the block mask. For few queries, computing it costs more than it saves.
bool reads_block_mask(Variant variant) { return variant != Variant::split; }

/// Adds the kernel that computes the block mask, if the main kernel reads it or the caller asked for it.
void classify_block_mask(const TypedConfig& config, const Settings& settings, LaunchPlan& plan) {
  if (settings.mask_mod.empty() || settings.block_mask == BlockMask::read || settings.seq_kv == 0) return;
  if (settings.block_mask == BlockMask::internal) {
    if (!reads_block_mask(config.variant)) return;
    plan.workspace_bytes = block_mask_at + BlockMaskLayout::of(settings).elements() * 4;
    plan.workspace_use = WorkspaceUse::zeros;
  }
  plan.kernels.insert(plan.kernels.begin(), block_mask_launch(settings));
  ++plan.main_kernel;
}

}  // namespace

LaunchPlan ParsedAttention::plan_of(const TypedConfig& typed, const DeviceInfo& device) const {
  const Settings& settings = settings_;
  const Params params = parameters(typed, settings, device);
  LaunchPlan plan;
  const Argument argument = argument_of(typed, settings);
  plan.params.resize(argument.bytes);
  std::memcpy(plan.params.data(), &params, sizeof params);
  if (settings.dropout > 0) {
    const AttentionDropout dropout = dropout_of(settings);
    std::memcpy(plan.params.data() + argument.dropout_at, &dropout, sizeof dropout);
  }
  if (settings.kv_lengths) {
    const AttentionPages pages = pages_of(settings);
    std::memcpy(plan.params.data() + argument.pages_at, &pages, sizeof pages);
  }
  if (settings.kv_scales != KvScales::none) {
    const AttentionScales scales = scales_of(settings);
    std::memcpy(plan.params.data() + argument.scales_at, &scales, sizeof scales);
  }
  plan.workspace_offset = offsetof(Params, workspace);
  for (const ArrayInfo& array : array_view())
    plan.pointers.push_back({array.name, pointer_offset_in(argument, array.name, settings),
                             static_cast<std::uint32_t>(array.alignment), array.extent_bytes(), array.output, array.optional,
                             -1});
  const std::int64_t heads = typed.variant == Variant::split ? settings.kv_heads * params.splits : settings.heads;
  const std::int64_t blocks = params.q_tiles * heads * settings.batch;
  if (blocks == 0 || settings.extents(Side::q).rows == 0) return plan;
  KernelLaunch launch;
  launch.entry = "attention";
  const auto cluster = static_cast<std::uint32_t>(typed.cluster);
  launch.grid = folded_grid(blocks, cluster);
  launch.cluster = {cluster, 1, 1};
  launch.block = {static_cast<std::uint32_t>(typed.block_threads()), 1, 1};
  launch.dynamic_smem_bytes = typed.smem_bytes(settings);
  plan.kernels.push_back(launch);
  if (typed.variant == Variant::wgmma) use_tensor_maps(typed, settings, params, device, plan);
  if (params.splits > 1 && combines_by_kernel(typed)) combine_splits(settings, params, device, plan);
  classify_block_mask(typed, settings, plan);
  return plan;
}

}  // namespace tunesmith
