// Constants and entry points of the generated kernels of attention's backward pass, and how they are launched.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>

#include "templates/attention/block_mask.h"
#include "templates/attention/kernel_source.h"
#include "templates/attention/modification.h"
#include "templates/attention_backward/aux_gradient.h"
#include "templates/attention_backward/config.h"
#include "templates/attention_backward/op.h"
#include "templates/attention_backward/wgmma_params.cuh"
#include "templates/folded_grid.h"
#include "templates/source_text.h"

namespace tunesmith {

using namespace attention_backward;

namespace {

using Params = AttentionBackwardParams;

// As in prepare.cuh, heads.cuh and wgmma_dq.cuh.
constexpr std::int64_t prepare_threads = 256, heads_threads = 256, wgmma_dq_threads = 256;

std::string asserts(const std::string& what, std::int64_t value, const std::string& why) {
  return "static_assert(" + what + " == " + std::to_string(value) + ", \"" + why + "\");\n";
}

std::string backward_shape_text(const TypedConfig& config, const Settings& settings) {
  std::string text = "static constexpr tunesmith::BackwardShape backward = {\n";
  for (const GradientTensor& gradient : gradient_tensors)
    text +=
        member(std::string(gradient.name) + "_vector", settings.forward.vector(gradient.side, settings.*gradient.tensor));
  if (settings.dlse) text += member("dlse", true);
  if (settings.dsinks) text += member("dsinks", true);
  if (settings.dslopes) text += member("dslopes", true);
  if (config.variant == Variant::wgmma) text += member("padded", true);
  if (config.has_sums() && !config.separate_adders(settings)) text += member("sums_columns", sums_columns(settings));
  if (config.has_counters(settings)) text += member("counters", true);
  if (settings.accumulate) text += member("accumulate", true);
  if (!settings.daux.empty() && settings.deterministic) text += member("exact_aux", true);
  return text + "};\n\n";
}

std::string mma_text(const char* name, const MmaPass& pass) {
  return "static constexpr tunesmith::MmaBackwardConfig " + std::string(name) + " = {\n" + member("warps", pass.warps) +
         member("kept", pass.kept) + member("streamed", pass.streamed) + member("stages", pass.stages) +
         (pass.split ? member("split", true) : "") + "};\n\n";
}

/// Returns the wgmma instructions: for S and dP, for dk and dv, and for dq or its pieces.
std::string wgmma_instructions(const TypedConfig& config, const Settings& settings) {
  const std::int64_t head_dim = settings.forward.head_dim;
  std::set<std::int64_t> columns{config.tile_q, head_dim, settings.forward.head_dim_v};
  if (config.separate_dq()) {
    columns.insert(config.dq_tile_kv);
  } else {
    columns.insert(std::min<std::int64_t>(head_dim, 64));
    if (head_dim % 64 != 0) columns.insert(head_dim % 64);
  }
  std::string text = "namespace tunesmith {\n";
  for (const std::int64_t count : columns) text += "TUNESMITH_WGMMA_" + std::to_string(count) + "\n";
  return text + "}  // namespace tunesmith\n\n";
}

std::string config_text(const TypedConfig& config, const Settings& settings) {
  const std::int64_t keys = config.smem_bytes(Pass::keys, settings), queries = config.smem_bytes(Pass::queries, settings);
  const std::string why = "the host asks for as much shared memory";
  if (config.variant == Variant::mma)
    return mma_text("keys_config", config.keys) + mma_text("queries_config", config.queries) +
           asserts("tunesmith::MmaBackwardTiles<shape, keys_config>::smem_bytes", keys, why) +
           asserts("tunesmith::MmaBackwardTiles<shape, queries_config>::smem_bytes", queries, why);
  if (config.variant == Variant::wgmma)
    return "static constexpr tunesmith::WgmmaBackwardConfig config = {\n" +
           member("roles", "tunesmith::MultiplierRoles::" + std::string(enum_name(config.roles))) +
           member("tile_q", config.tile_q) + member("stages", config.stages) + member("ahead", config.ahead) +
           (config.is_ordered(settings) ? member("ordered", true) : "") +
           (config.separate_adders(settings) ? member("adders", true) : "") +
           (settings.dslopes ? member("slopes", true) : "") + (settings.accumulate ? member("accumulate", true) : "") +
           (config.cluster > 0 ? member("cluster", config.cluster) : "") +
           (config.head_split > 0 ? member("head_split", config.head_split) : "") +
           (config.separate_dq() ? member("dq_tile_q", config.dq_tile_q) + member("dq_tile_kv", config.dq_tile_kv) +
                                       member("dq_stages", config.dq_stages)
                                 : "") +
           (config.persistent ? member("persistent", true) : "") + "};\n\n" + wgmma_instructions(config, settings) +
           asserts("tunesmith::WgmmaBackwardTiles<shape, config>::smem_bytes", keys, why) +
           (config.separate_dq() ? asserts("tunesmith::WgmmaQueriesTiles<shape, config>::smem_bytes", queries, why) : "");
  return "static constexpr tunesmith::SimtBackwardConfig config = {\n" + member("threads", config.threads) +
         member("tile_q", config.tile_q) + member("tile_kv", config.tile_kv) + "};\n\n" +
         asserts("tunesmith::SimtKeysTiles<shape, config>::smem_bytes", keys, why) +
         asserts("tunesmith::SimtQueriesTiles<shape, config>::smem_bytes", queries, why);
}

attention::FeatureUse features_of(const TypedConfig& config, const Settings& settings) {
  attention::FeatureUse use;
  const attention::Settings& forward = settings.forward;
  use.ring = config.variant == Variant::wgmma;
  use.steps = use.ring && forward.softcap != 0;
  if (config.variant == Variant::simt || (config.variant == Variant::wgmma && settings.daux.empty())) return use;
  bool aligned = forward.vector(Side::o, settings.dout) >= 8;
  for (const Side side : {Side::q, Side::k, Side::v}) aligned = aligned && forward.vector(side) >= 8;
  use.chunks = aligned ? attention::Chunks::aligned : attention::Chunks::unaligned;
  return use;
}

/// What the kernels do in this configuration, and how threads map to the data.
void describe(const TypedConfig& config, const Settings& settings, SourceParts& parts) {
  const std::string keys = std::to_string(config.kept(Pass::keys)), queries = std::to_string(config.kept(Pass::queries));
  if (config.variant == Variant::wgmma) {
    const std::string streamed = std::to_string(config.tile_q);
    parts.algorithm =
        "delta = rowsum(o * dout) - dlse first; then, with P = exp(S - lse) and dS = P * (dP - delta), a block that keeps " +
        keys + " keys goes through the Q tiles of all heads that share them: dv += P^T dout, dk += dS^T Q" +
        (config.separate_dq() ? "; a second kernel computes dq = dS K: a block that keeps " + queries +
                                    " queries goes through the K/V tiles that they see. No kernel adds to global memory"
         : config.has_sums()
             ? ", and dS K is added to float32 sums of dq in the workspace" +
                   std::string(config.is_ordered(settings) ? ", in a fixed order" : "") + "; a last kernel rounds them"
             : ", and dS K is sent to the blocks of the cluster, each of which adds and writes a share of dq");
    parts.threads =
        config.roles == Roles::keys
            ? "two warpgroups of 64 keys each compute S, P, dP, dS, dk and dv of tiles of " + streamed + " queries"
            : "one warpgroup computes S, P and dv of tiles of " + streamed + " queries, another one dP, dS and dk";
    if (config.cluster > 0)
      parts.threads.insert(0, "a cluster of " + std::to_string(config.cluster) + " blocks holds all keys of a key head; ");
    if (config.head_split > 0)
      parts.threads.insert(0, "the " + std::to_string(config.head_split) +
                                  " blocks of a cluster share the query heads of a key head and add dk and dv; ");
    if (config.persistent) parts.threads.insert(0, "blocks stay and go through many K/V tiles; ");
    parts.threads += config.separate_dq()
                         ? "; one thread of a third one loads tiles through TMA. For dq, warpgroups of 64 queries and one "
                           "thread that loads tiles of " +
                               std::to_string(config.dq_tile_kv) + " keys"
                     : config.separate_adders(settings)
                         ? "; a third one computes dq, and warps of a fourth one load tiles through TMA and sum dq"
                         : "; a third one loads tiles through TMA and computes dq";
    return;
  }
  parts.algorithm =
      "delta = rowsum(o * dout) - dlse first; then, with P = exp(S - lse) and dS = P * (dP - delta), a kernel for dv = P^T "
      "dout and dk = dS^T Q, which keeps keys and streams the queries of all heads that share them, and one for dq = dS K, "
      "which keeps queries and streams keys: each gradient is summed by one block, in a fixed order";
  parts.threads = "a block has " + keys + " keys of a key head, or " + queries + " queries of a head";
  if (config.variant == Variant::mma)
    parts.threads +=
        "; a warp has " +
        std::to_string(config.keys.split ? 2 * config.keys.kept / config.keys.warps : config.keys.kept / config.keys.warps) +
        " of the keys" + (config.keys.split ? " and computes one of dk and dv" : "") + ", or " +
        std::to_string(config.queries.kept / config.queries.warps) + " of the queries, a quad of lanes a row";
  else
    parts.threads += "; 16 threads share the columns of a product, " + std::to_string(config.threads / 16) + " its rows";
}

/// The type of the kernels' argument, and what of it the kernels that all variants have take.
struct Argument {
  const char *type, *own, *common;  ///< own: what the kernels of the variant take
  std::size_t bytes;
};
Argument argument_of(const TypedConfig& config, const Settings& settings) {
  const bool wgmma = config.variant == Variant::wgmma;
  if (!settings.daux.empty())
    return wgmma ? Argument{"WgmmaBackwardAuxParams", "(params.wgmma)", "params.wgmma.backward",
                            sizeof(WgmmaBackwardAuxParams)}
                 : Argument{"AttentionBackwardAuxParams", "(params.backward)", "params.backward",
                            sizeof(AttentionBackwardAuxParams)};
  return wgmma ? Argument{"WgmmaBackwardParams", "(params)", "params.backward", sizeof(WgmmaBackwardParams)}
               : Argument{"AttentionBackwardParams", "(params)", "params", sizeof(Params)};
}

std::string entry(const std::string& name, const std::string& bounds, const char* type, const std::string& call) {
  return "extern \"C\" __global__ void __launch_bounds__(" + bounds + ")\n" + name +
         "(const __grid_constant__ tunesmith::" + type + " params) {\n  tunesmith::" + call + ";\n}\n";
}

/// The name of the kernel of wgmma that computes dk and dv.
const char* keys_kernel(const TypedConfig& config) {
  return config.separate_dq() ? "attention_backward_keys" : "attention_backward";
}

bool has_heads_kernel(const Settings& settings) { return settings.dsinks || settings.dslopes; }

std::int64_t tiles(std::int64_t positions, std::int64_t tile) { return (positions + tile - 1) / tile; }

/// Where the workspace's parts begin, in bytes.
struct Workspace {
  std::int64_t lse, delta, slopes, sums, counters, aux, end;
};
/// Returns the counters of wgmma: one of the blocks that have begun, and one for each 16 queries and 64 columns of the sums
/// of dq.
std::int64_t counter_words(const TypedConfig& config, const Settings& settings, std::int64_t rows) {
  return config.has_counters(settings) ? 1 + rows / 16 * (sums_columns(settings) / 64) : 0;
}
/// Returns the rows of statistics that a head has. Those of wgmma are loaded by whole Q tiles; packed sequences are padded
/// as padded_start() in backward.cuh has it.
std::int64_t statistics_rows(const TypedConfig& config, const Settings& settings) {
  const attention::Settings& forward = settings.forward;
  if (config.variant == Variant::wgmma && forward.varlen) return (forward.total_q / 128 + forward.batch) * 128;
  if (config.variant == Variant::wgmma) return tiles(forward.seq_q, 128) * 128;
  return forward.varlen ? forward.total_q : forward.seq_q;
}
std::int64_t all_statistics_rows(const TypedConfig& config, const Settings& settings) {
  const attention::Settings& forward = settings.forward;
  return statistics_rows(config, settings) * forward.heads * (forward.varlen ? 1 : forward.batch);
}

/// Returns the tiles of a head that have parts of dslopes: of queries, or of 64 keys.
std::int64_t slope_tiles(const TypedConfig& config, const Settings& settings) {
  const attention::Settings& forward = settings.forward;
  if (settings.rows() == 0) return 0;  // no kernel writes parts
  if (config.variant != Variant::wgmma) return tiles(forward.seq_q, config.kept(Pass::queries));
  return tiles(forward.seq_kv, config.kept(Pass::keys)) * (config.kept(Pass::keys) / 64);
}
/// Returns the parts of such a tile: of its block, or of its four warps.
std::int64_t parts_of_tile(const TypedConfig& config) { return config.variant == Variant::wgmma ? 4 : 1; }

Workspace workspace_of(const TypedConfig& config, const Settings& settings) {
  constexpr std::int64_t alignment = 256;
  const attention::Settings& forward = settings.forward;
  const auto aligned = [](std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  const std::int64_t mask =
      forward.mask_mod.empty() ? 0 : attention::block_mask_at + 4 * attention::BlockMaskLayout::of(forward).elements();
  const std::int64_t rows = all_statistics_rows(config, settings), row_bytes = aligned(4 * rows);
  Workspace at{};
  at.lse = aligned(mask);
  at.delta = at.lse + row_bytes;
  at.slopes = at.delta + row_bytes;
  const std::int64_t parts =
      settings.dslopes ? forward.heads * forward.batch * slope_tiles(config, settings) * parts_of_tile(config) : 0;
  at.sums = at.slopes + aligned(4 * parts);
  at.counters = at.sums + (config.has_sums() ? 4 * rows * sums_columns(settings) : 0);
  at.aux = aligned(at.counters + 4 * counter_words(config, settings, rows));
  at.end = at.aux + aux_workspace_bytes(settings);
  return at;
}

/// Rows of a block of the first kernel, as PrepareLanes has them.
std::int64_t prepare_rows(const Settings& settings) {
  const attention::Settings& forward = settings.forward;
  const std::int64_t vector = std::min(forward.vector(Side::o), forward.vector(Side::o, settings.dout));
  const std::int64_t accesses = forward.head_dim_v / vector;
  const std::int64_t few_lanes = accesses >= 32 ? 32 : accesses > 8 ? 16 : accesses > 4 ? 8 : 4;
  const std::int64_t lanes = accesses % 8 == 0 ? 8 : accesses % 4 == 0 ? 4 : few_lanes;
  const std::int64_t each = (accesses + lanes - 1) / lanes;
  return prepare_threads / lanes * (each == 1 ? 4 : each <= 3 ? 2 : 1);
}

Params parameters(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  const attention::Settings& forward = settings.forward;
  Params params{};
  params.attention = attention::parameters_of(forward);
  if (settings.rows() > 0)
    params.attention.q_tiles = static_cast<std::int32_t>(tiles(forward.seq_q, config.kept(Pass::queries)));
  params.attention.splits = 1;
  params.dropout = attention::dropout_of(forward);
  params.dout_strides = attention::strides_of(settings.dout);
  params.dq_strides = attention::strides_of(settings.dq);
  params.dk_strides = attention::strides_of(settings.dk);
  params.dv_strides = attention::strides_of(settings.dv);
  const Workspace workspace = workspace_of(config, settings);
  params.statistics_rows = statistics_rows(config, settings);
  params.rows = all_statistics_rows(config, settings);
  params.lse_at = workspace.lse;
  params.delta_at = workspace.delta;
  params.slopes_at = workspace.slopes;
  params.sums_at = workspace.sums;
  params.counters_at = workspace.counters;
  params.counter_words = counter_words(config, settings, params.rows);
  params.prepare_stride = tiles(params.rows, prepare_rows(settings)) * prepare_threads;
  params.slope_parts = static_cast<std::int32_t>(slope_tiles(config, settings) * parts_of_tile(config));
  params.parts_of_tile = static_cast<std::int32_t>(parts_of_tile(config));
  params.kv_tiles = static_cast<std::int32_t>(tiles(forward.seq_kv, config.kept(Pass::keys)));
  params.blocks = static_cast<std::int32_t>(params.kv_tiles * forward.kv_heads * forward.batch);
  if (config.cluster > 0) {  // WgmmaKeys then numbers the blocks of a key head one after another
    params.kv_tiles = config.cluster;
    params.attention.heads_per_section = 1;
  } else if (config.variant == Variant::wgmma) {
    std::int64_t blocks = params.kv_tiles * config.blocks_of_tile();  // of a key head
    if (config.separate_dq()) blocks = std::min(blocks, params.attention.q_tiles * forward.group());
    params.attention.heads_per_section = heads_per_section(blocks, settings, device, config.has_sums());
  }
  return params;
}

std::uint32_t pointer_offset(const std::string& array, const Settings& settings, bool wgmma) {
  constexpr std::size_t rng_state = offsetof(Params, dropout) + offsetof(AttentionDropout, rng_state);
  for (std::size_t i = 0; i < settings.forward.aux.size(); ++i)
    if (const std::string* const gradient = settings.daux.array_of(settings.forward.aux[i].name);
        gradient != nullptr && array == *gradient)
      return static_cast<std::uint32_t>(
          (wgmma ? offsetof(WgmmaBackwardAuxParams, aux) : offsetof(AttentionBackwardAuxParams, aux)) +
          offsetof(AuxGradients, to) + i * sizeof(float*));
  const std::array<std::pair<std::string_view, std::size_t>, 8> own{{{"rng_state", rng_state},
                                                                     {"dout", offsetof(Params, dout)},
                                                                     {"dlse", offsetof(Params, dlse)},
                                                                     {"dq", offsetof(Params, dq)},
                                                                     {"dk", offsetof(Params, dk)},
                                                                     {"dv", offsetof(Params, dv)},
                                                                     {"dsinks", offsetof(Params, dsinks)},
                                                                     {"dslopes", offsetof(Params, dslopes)}}};
  for (const auto& [name, offset] : own)
    if (array == name) return static_cast<std::uint32_t>(offset);
  return offsetof(Params, attention) + attention::pointer_offset(array, settings.forward);
}

KernelLaunch launch_of(const char* name, std::int64_t blocks, std::int64_t threads, std::int64_t smem_bytes) {
  KernelLaunch launch;
  launch.entry = name;
  launch.grid = folded_grid(blocks);
  launch.block = {static_cast<std::uint32_t>(threads), 1, 1};
  launch.dynamic_smem_bytes = smem_bytes;
  return launch;
}

}  // namespace

SourceParts ParsedAttentionBackward::source_parts(const Config& config) const {
  const TypedConfig typed = TypedConfig::parse(config);
  const Settings& settings = settings_;
  const attention::Settings& forward = settings.forward;
  const std::string variant(enum_name(typed.variant));
  const bool mma = typed.variant == Variant::mma, wgmma = typed.variant == Variant::wgmma;
  const Argument argument = argument_of(typed, settings);
  const std::string common = "(" + std::string(argument.common) + ")";
  SourceParts parts;
  parts.specialized_for = attention::specialized_for(forward);
  describe(typed, settings, parts);
  if (mma) parts.least_arch = "sm_80";
  if (wgmma) parts.least_arch = "sm_90a";
  parts.main_template = "attention_backward/" + variant + ".cuh";
  const attention::Derivatives derivatives{settings.score_mod_grad, differentiated_arrays(settings)};
  parts.constants = "using Element = " + device_type(forward.dtype) + ";\n\n" +
                    attention::modification_definition(forward, &derivatives) + attention::shape_text(forward) +
                    backward_shape_text(typed, settings) + attention::features_text(forward, features_of(typed, settings)) +
                    config_text(typed, settings) + aux_config_text(typed, settings) +
                    asserts("sizeof(tunesmith::" + std::string(argument.type) + ")",
                            static_cast<std::int64_t>(argument.bytes), "the host fills the parameters by this layout") +
                    asserts("tunesmith::PrepareLanes<shape, backward>::rows", prepare_rows(settings),
                            "the host launches blocks of as many rows");
  const std::string modification = attention::modification_type(forward);
  const auto common_entry = [&](const std::string& name, std::int64_t threads, const std::string& call) {
    return entry(name, std::to_string(threads), argument.type, call + common);
  };
  parts.kernels =
      common_entry("attention_backward_prepare", prepare_threads, "attention_backward_prepare<Element, shape, backward>");
  if (wgmma) {
    const std::string bounds = ", 1";
    parts.kernels +=
        entry(keys_kernel(typed), std::to_string(typed.block_threads(Pass::keys, settings)) + bounds, argument.type,
              "attention_backward_wgmma<Element, shape, " + modification + ", config>" + argument.own);
    if (typed.separate_dq())
      parts.kernels += entry(
          "attention_backward_queries", std::to_string(typed.block_threads(Pass::queries, settings)) + bounds, argument.type,
          "attention_backward_queries_wgmma<Element, shape, backward, " + modification + ", config>" + argument.own);
    if (typed.has_sums())
      parts.kernels += entry("attention_backward_dq", std::to_string(wgmma_dq_threads), argument.type,
                             "attention_backward_wgmma_dq<Element, shape, backward, config>" + std::string(argument.own));
  } else {
    const std::string arguments = "<Element, shape, backward, " + modification + ", ";
    parts.kernels +=
        common_entry("attention_backward_keys", typed.block_threads(Pass::keys, settings),
                     "attention_backward_keys_" + variant + arguments + (mma ? "keys_config>" : "config>")) +
        common_entry("attention_backward_queries", typed.block_threads(Pass::queries, settings),
                     "attention_backward_queries_" + variant + arguments + (mma ? "queries_config>" : "config>"));
  }
  if (has_heads_kernel(settings))
    parts.kernels += common_entry("attention_backward_heads", heads_threads, "attention_backward_heads<shape, backward>");
  parts.kernels += aux_entries(typed, settings, argument.common);
  parts.kernels += attention::block_mask_entry(forward, argument.type, std::string(argument.common) + ".attention") +
                   attention::modification_entry(forward) + attention::score_gradient_entry(forward);
  return parts;
}

namespace {

/// Adds the maps of wgmma: boxes of 64 columns (128 bytes) and as many positions of a head as a tile has, or if two kernels
/// use the maps, as divide the tiles of both.
void use_tensor_maps(const TypedConfig& config, const Settings& settings, LaunchPlan& plan) {
  struct Mapped {
    const char* array;
    Side side;
    const Tensor& tensor;
    std::int64_t rows;
    std::size_t offset;
  };
  const attention::Settings& forward = settings.forward;
  const std::int64_t q_box = config.separate_dq() ? 64 : config.tile_q;
  const std::int64_t kv_box = !config.separate_dq() ? config.kept(Pass::keys) : config.dq_tile_kv % 64 == 0 ? 64 : 32;
  const std::array<Mapped, 6> mapped{{{"q", Side::q, forward.tensor(Side::q), q_box, offsetof(WgmmaBackwardParams, q)},
                                      {"k", Side::k, forward.tensor(Side::k), kv_box, offsetof(WgmmaBackwardParams, k)},
                                      {"v", Side::v, forward.tensor(Side::v), kv_box, offsetof(WgmmaBackwardParams, v)},
                                      {"dout", Side::o, settings.dout, q_box, offsetof(WgmmaBackwardParams, dout)},
                                      {"dk", Side::k, settings.dk, 64, offsetof(WgmmaBackwardParams, dk)},
                                      {"dv", Side::v, settings.dv, 64, offsetof(WgmmaBackwardParams, dv)}}};
  for (const auto& [array, side, tensor, rows, offset] : mapped) {
    const auto found = std::ranges::find(plan.pointers, array, &LaunchPlan::Pointer::array);
    LaunchPlan::TensorMap map;
    map.array = static_cast<int>(found - plan.pointers.begin());
    map.offset = static_cast<std::uint32_t>(offset);
    map.dtype = forward.dtype;
    map.rank = 4;
    map.sizes = {forward.width(side), forward.positions(side), forward.heads_of(side), forward.batch};
    // A dimension of one element may have any stride, but TMA needs multiples of 16 bytes.
    const auto bytes = [&](std::int64_t count, std::int64_t stride) {
      return count > 1 ? stride * size_of(forward.dtype) : std::int64_t{16};
    };
    map.strides_bytes = {bytes(map.sizes[1], tensor.seq_stride), bytes(map.sizes[2], tensor.head_stride),
                         bytes(map.sizes[3], tensor.batch_stride)};
    if (forward.varlen) {  // see MapPlace
      const std::int64_t longest = side == Side::q || side == Side::o ? forward.seq_q : forward.seq_kv;
      const std::int64_t row_bytes = map.strides_bytes[0];
      map.sizes[3] = map.sizes[1] + 1;
      map.sizes[1] = longest;
      map.strides_bytes[2] = row_bytes;
      map.before_bytes = longest * row_bytes;
    }
    map.box = {64, rows, 1, 1};
    map.swizzle_bytes = 128;
    plan.tensor_maps.push_back(map);
  }
}

}  // namespace

LaunchPlan ParsedAttentionBackward::launch_plan(const Config& config, const DeviceInfo& device) const {
  const TypedConfig typed = TypedConfig::parse(config);
  const Settings& settings = settings_;
  const attention::Settings& forward = settings.forward;
  const Params params = parameters(typed, settings, device);
  LaunchPlan plan;
  const bool wgmma = typed.variant == Variant::wgmma;
  plan.params.resize(argument_of(typed, settings).bytes);
  std::memcpy(plan.params.data(), &params, sizeof params);
  if (!settings.daux.empty()) {
    const AuxGradients aux = aux_parameters(settings, workspace_of(typed, settings).aux);
    const std::size_t at = wgmma ? offsetof(WgmmaBackwardAuxParams, aux) : offsetof(AttentionBackwardAuxParams, aux);
    std::memcpy(plan.params.data() + at, &aux, sizeof aux);
  }
  plan.workspace_offset = offsetof(Params, attention.workspace);
  for (const ArrayInfo& array : array_view())
    plan.pointers.push_back({array.name, pointer_offset(array.name, settings, wgmma),
                             static_cast<std::uint32_t>(array.alignment), array.extent_bytes(), array.output, array.optional,
                             -1});

  const std::int64_t rows = settings.rows();
  const bool has_queries = rows > 0 && forward.batch > 0 && forward.seq_q > 0;
  const bool has_keys = forward.batch > 0 && forward.seq_kv > 0 && forward.positions(Side::k) > 0;
  const auto add = [&](const KernelLaunch& launch) { plan.kernels.push_back(launch); };
  if (has_queries && forward.seq_kv > 0 && !forward.mask_mod.empty() && forward.block_mask != BlockMask::read)
    add(attention::block_mask_launch(forward));
  if (has_queries)
    add(launch_of("attention_backward_prepare", tiles(params.rows, prepare_rows(settings)), prepare_threads, 0));
  plan.main_kernel = plan.kernels.size();
  if (wgmma) {
    use_tensor_maps(typed, settings, plan);
    if (typed.has_sums() && !typed.is_ordered(settings)) plan.sums_in_any_order = {"dq"};
    std::int64_t blocks = params.kv_tiles * forward.kv_heads * forward.batch * typed.blocks_of_tile();
    if (typed.persistent) blocks = std::min<std::int64_t>(blocks, device.sm_count);
    KernelLaunch launch = launch_of(keys_kernel(typed), blocks, typed.block_threads(Pass::keys, settings),
                                    typed.smem_bytes(Pass::keys, settings));
    if (const int cluster = std::max(typed.cluster, typed.head_split); cluster > 0) {
      launch.cluster = {static_cast<std::uint32_t>(cluster), 1, 1};
      launch.grid = folded_grid(blocks, launch.cluster.x);
    }
    add(launch);
    if (typed.separate_dq()) {
      launch = launch_of("attention_backward_queries", params.attention.q_tiles * forward.heads * forward.batch,
                         typed.block_threads(Pass::queries, settings), typed.smem_bytes(Pass::queries, settings));
      launch.overlaps = device.kind == DeviceInfo::Kind::cuda;
      add(launch);
    }
    if (typed.has_sums())
      add(launch_of("attention_backward_dq", tiles(params.rows / 16 * (sums_columns(settings) / 64), wgmma_dq_threads / 32),
                    wgmma_dq_threads, 0));
  }
  if (has_keys && !wgmma)
    add(launch_of("attention_backward_keys", params.kv_tiles * forward.kv_heads * forward.batch,
                  typed.block_threads(Pass::keys, settings), typed.smem_bytes(Pass::keys, settings)));
  if (has_queries && !wgmma)
    add(launch_of("attention_backward_queries", params.attention.q_tiles * forward.heads * forward.batch,
                  typed.block_threads(Pass::queries, settings), typed.smem_bytes(Pass::queries, settings)));
  if (has_heads_kernel(settings)) add(launch_of("attention_backward_heads", forward.heads, heads_threads, 0));
  add_aux_launches(typed, settings, has_queries && has_keys, plan.kernels);
  if (!settings.deterministic)
    for (const std::string& array : settings.daux.arrays()) plan.sums_in_any_order.push_back(array);
  if (!plan.kernels.empty()) plan.workspace_bytes = workspace_of(typed, settings).end;
  plan.workspace_use = WorkspaceUse::scratch;  // kernels write what others read, and zero what they add to
  return plan;
}

}  // namespace tunesmith
