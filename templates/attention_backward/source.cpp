// Constants and entry points of the generated kernels of attention's backward pass, and how they are launched.

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "templates/attention/kernel_source.h"
#include "templates/attention/mask_tiles.h"
#include "templates/attention/modification.h"
#include "templates/attention_backward/config.h"
#include "templates/attention_backward/op.h"
#include "templates/folded_grid.h"
#include "templates/source_text.h"

namespace tunesmith {

using namespace attention_backward;

namespace {

// Must agree with AttentionBackwardParams in backward.cuh; the generated source asserts the size.
struct Params {
  attention::Params attention;
  std::uint64_t dout, dlse, dq, dk, dv, dsinks, dslopes;
  attention::Strides strides[gradient_tensors.size()];
  std::int64_t rows, lse_at, delta_at, slopes_at;
  std::int32_t kv_tiles;
};

constexpr std::int64_t prepare_threads = 256, heads_threads = 256;  // as in prepare.cuh and heads.cuh

std::string asserts(const std::string& what, std::int64_t value, const std::string& why) {
  return "static_assert(" + what + " == " + std::to_string(value) + ", \"" + why + "\");\n";
}

std::string backward_shape_text(const Settings& settings) {
  std::string text = "static constexpr tunesmith::BackwardShape backward = {\n";
  for (const GradientTensor& gradient : gradient_tensors)
    text +=
        member(std::string(gradient.name) + "_vector", settings.forward.vector(gradient.side, settings.*gradient.tensor));
  if (settings.dlse) text += member("dlse", true);
  if (settings.dsinks) text += member("dsinks", true);
  if (settings.dslopes) text += member("dslopes", true);
  return text + "};\n\n";
}

std::string mma_text(const char* name, const MmaPass& pass) {
  return "static constexpr tunesmith::MmaBackwardConfig " + std::string(name) + " = {\n" + member("warps", pass.warps) +
         member("kept", pass.kept) + member("streamed", pass.streamed) + member("stages", pass.stages) +
         (pass.split ? member("split", true) : "") + "};\n\n";
}

std::string config_text(const TypedConfig& config, const Settings& settings) {
  const std::int64_t keys = config.smem_bytes(Pass::keys, settings.forward),
                     queries = config.smem_bytes(Pass::queries, settings.forward);
  const std::string why = "the host asks for as much shared memory";
  if (config.variant == Variant::mma)
    return mma_text("keys_config", config.keys) + mma_text("queries_config", config.queries) +
           asserts("tunesmith::MmaBackwardTiles<shape, keys_config>::smem_bytes", keys, why) +
           asserts("tunesmith::MmaBackwardTiles<shape, queries_config>::smem_bytes", queries, why);
  return "static constexpr tunesmith::SimtBackwardConfig config = {\n" + member("threads", config.threads) +
         member("tile_q", config.tile_q) + member("tile_kv", config.tile_kv) + "};\n\n" +
         asserts("tunesmith::SimtKeysTiles<shape, config>::smem_bytes", keys, why) +
         asserts("tunesmith::SimtQueriesTiles<shape, config>::smem_bytes", queries, why);
}

attention::FeatureUse features_of(const TypedConfig& config, const Settings& settings) {
  attention::FeatureUse use;
  if (config.variant != Variant::mma) return use;
  const attention::Settings& forward = settings.forward;
  bool aligned = forward.vector(Side::o, settings.dout) >= 8;
  for (const Side side : {Side::q, Side::k, Side::v}) aligned = aligned && forward.vector(side) >= 8;
  use.chunks = aligned ? attention::Chunks::aligned : attention::Chunks::unaligned;
  return use;
}

/// What the kernels do in this configuration, and how threads map to the data.
void describe(const TypedConfig& config, SourceParts& parts) {
  const std::string keys = std::to_string(config.kept(Pass::keys)), queries = std::to_string(config.kept(Pass::queries));
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

std::string entry(const std::string& name, std::int64_t threads, const std::string& call) {
  return "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads) + ")\n" + name +
         "(const __grid_constant__ tunesmith::AttentionBackwardParams params) {\n  tunesmith::" + call + "(params);\n}\n";
}

bool has_heads_kernel(const Settings& settings) { return settings.dsinks || settings.dslopes; }

std::int64_t tiles(std::int64_t positions, std::int64_t tile) { return (positions + tile - 1) / tile; }

/// Where the workspace's parts begin, in bytes.
struct Workspace {
  std::int64_t lse, delta, slopes, end;
};
Workspace workspace_of(const TypedConfig& config, const Settings& settings) {
  constexpr std::int64_t alignment = 256;
  const attention::Settings& forward = settings.forward;
  const auto aligned = [](std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  const std::int64_t mask =
      forward.mask_mod.empty() ? 0 : attention::mask_tiles_at + 4 * attention::MaskTilesLayout::of(forward).elements();
  const std::int64_t row_bytes = aligned(4 * settings.rows());
  Workspace at{};
  at.lse = aligned(mask);
  at.delta = at.lse + row_bytes;
  at.slopes = at.delta + row_bytes;
  const std::int64_t parts =
      settings.dslopes ? forward.heads * forward.batch * tiles(forward.seq_q, config.kept(Pass::queries)) : 0;
  at.end = at.slopes + aligned(4 * parts);
  return at;
}

Params parameters(const TypedConfig& config, const Settings& settings) {
  const attention::Settings& forward = settings.forward;
  Params params{};
  params.attention = attention::parameters_of(forward);
  if (settings.rows() > 0)
    params.attention.q_tiles = static_cast<std::int32_t>(tiles(forward.seq_q, config.kept(Pass::queries)));
  params.attention.splits = 1;
  for (std::size_t i = 0; i < gradient_tensors.size(); ++i) {
    const Tensor& tensor = settings.*gradient_tensors[i].tensor;
    params.strides[i] = {tensor.batch_stride, tensor.seq_stride, tensor.head_stride};
  }
  const Workspace workspace = workspace_of(config, settings);
  params.rows = settings.rows();
  params.lse_at = workspace.lse;
  params.delta_at = workspace.delta;
  params.slopes_at = workspace.slopes;
  params.kv_tiles = static_cast<std::int32_t>(tiles(forward.seq_kv, config.kept(Pass::keys)));
  return params;
}

std::uint32_t pointer_offset(const std::string& array, const Settings& settings) {
  const std::array<std::pair<std::string_view, std::size_t>, 7> own{{{"dout", offsetof(Params, dout)},
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

/// Rows of a block of the first kernel, as PrepareLanes has them.
std::int64_t prepare_rows(const Settings& settings) {
  const attention::Settings& forward = settings.forward;
  const std::int64_t vector = std::min(forward.vector(Side::o), forward.vector(Side::o, settings.dout));
  const std::int64_t accesses = forward.head_dim_v / vector;
  const std::int64_t lanes = accesses >= 32 ? 32 : accesses > 8 ? 16 : accesses > 4 ? 8 : 4;
  return prepare_threads / lanes;
}

}  // namespace

SourceParts ParsedAttentionBackward::source_parts(const Config& config) const {
  const TypedConfig typed = TypedConfig::parse(config);
  const Settings& settings = settings_;
  const attention::Settings& forward = settings.forward;
  const std::string variant(enum_name(typed.variant));
  const bool mma = typed.variant == Variant::mma;
  SourceParts parts;
  parts.specialized_for = attention::specialized_for(forward);
  describe(typed, parts);
  if (mma) parts.least_arch = "sm_80";
  parts.main_template = "attention_backward/" + variant + ".cuh";
  parts.constants =
      "using Element = " + device_type(forward.dtype) + ";\n\n" + attention::modification_definition(forward) +
      attention::shape_text(forward) + backward_shape_text(settings) +
      attention::features_text(forward, features_of(typed, settings)) + config_text(typed, settings) +
      asserts("sizeof(tunesmith::AttentionBackwardParams)", sizeof(Params), "the host fills the parameters by this layout") +
      asserts("tunesmith::PrepareLanes<shape, backward>::rows", prepare_rows(settings),
              "the host launches blocks of as many rows");
  const std::string arguments = "<Element, shape, backward, " + attention::modification_type(forward) + ", ";
  parts.kernels =
      entry("attention_backward_prepare", prepare_threads, "attention_backward_prepare<Element, shape, backward>") +
      entry("attention_backward_keys", typed.block_threads(Pass::keys),
            "attention_backward_keys_" + variant + arguments + (mma ? "keys_config>" : "config>")) +
      entry("attention_backward_queries", typed.block_threads(Pass::queries),
            "attention_backward_queries_" + variant + arguments + (mma ? "queries_config>" : "config>"));
  if (has_heads_kernel(settings))
    parts.kernels += entry("attention_backward_heads", heads_threads, "attention_backward_heads<shape, backward>");
  parts.kernels += attention::mask_tiles_entry(forward, "AttentionBackwardParams", "params.attention") +
                   attention::modification_entry(forward);
  return parts;
}

LaunchPlan ParsedAttentionBackward::launch_plan(const Config& config, const DeviceInfo&) const {
  const TypedConfig typed = TypedConfig::parse(config);
  const Settings& settings = settings_;
  const attention::Settings& forward = settings.forward;
  const Params params = parameters(typed, settings);
  LaunchPlan plan;
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  plan.workspace_offset = offsetof(Params, attention) + offsetof(attention::Params, workspace);
  for (const ArrayInfo& array : arrays())
    plan.pointers.push_back({array.name, pointer_offset(array.name, settings), static_cast<std::uint32_t>(array.alignment),
                             array.extent_bytes(), array.output, array.optional, -1});

  const std::int64_t rows = settings.rows();
  const bool has_queries = rows > 0 && forward.batch > 0 && forward.seq_q > 0;
  const bool has_keys = forward.batch > 0 && forward.seq_kv > 0 && forward.positions(Side::k) > 0;
  const auto add = [&](const KernelLaunch& launch) { plan.kernels.push_back(launch); };
  if (has_queries && forward.seq_kv > 0 && !forward.mask_mod.empty() && forward.mask_tiles != MaskTiles::read)
    add(attention::mask_tiles_launch(forward));
  if (has_queries) add(launch_of("attention_backward_prepare", tiles(rows, prepare_rows(settings)), prepare_threads, 0));
  plan.main_kernel = plan.kernels.size();
  if (has_keys)
    add(launch_of("attention_backward_keys", params.kv_tiles * forward.kv_heads * forward.batch,
                  typed.block_threads(Pass::keys), typed.smem_bytes(Pass::keys, forward)));
  if (has_queries)
    add(launch_of("attention_backward_queries", params.attention.q_tiles * forward.heads * forward.batch,
                  typed.block_threads(Pass::queries), typed.smem_bytes(Pass::queries, forward)));
  if (has_heads_kernel(settings)) add(launch_of("attention_backward_heads", forward.heads, heads_threads, 0));
  if (!plan.kernels.empty()) plan.workspace_bytes = workspace_of(typed, settings).end;
  return plan;
}

}  // namespace tunesmith
