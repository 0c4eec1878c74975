// Renders the configuration, the shape, and assertions of the host's assumptions about the kernels.

#include "templates/attention_backward/constants.h"

#include <algorithm>
#include <set>

#include "templates/attention/source/kernel_source.h"
#include "templates/attention/source/modification.h"
#include "templates/attention_backward/aux_gradient.h"
#include "templates/attention_backward/kernel_layout.h"
#include "templates/source_text.h"

namespace tunesmith::attention_backward {
namespace {

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
  if (config.has_sums() && !config.separate_adders(settings)) text += member("sums_columns", sums_columns(config, settings));
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
  const std::string why = "must equal the shared memory that the host requests";
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
  use.rows = config.variant != Variant::wgmma || !settings.daux.empty();
  if (config.variant == Variant::simt || (config.variant == Variant::wgmma && settings.daux.empty())) return use;
  bool aligned = forward.vector(Side::o, settings.dout) >= 8;
  for (const Side side : {Side::q, Side::k, Side::v}) aligned = aligned && forward.vector(side) >= 8;
  use.chunks = aligned ? attention::Chunks::aligned : attention::Chunks::unaligned;
  return use;
}

}  // namespace

std::string constants_text(const TypedConfig& config, const Settings& settings) {
  const attention::Settings& forward = settings.forward;
  const attention::Derivatives derivatives{settings.score_mod_grad, differentiated_arrays(settings)};
  const Argument argument = argument_of(config, settings);
  return "using Element = " + device_type(forward.dtype) + ";\n\n" +
         attention::modification_definition(forward, &derivatives) + attention::shape_text(forward) +
         backward_shape_text(config, settings) + attention::features_text(forward, features_of(config, settings)) +
         config_text(config, settings) + aux_config_text(config, settings) +
         asserts("sizeof(tunesmith::" + std::string(argument.type) + ")", static_cast<std::int64_t>(argument.bytes),
                 "the host fills the parameters by this layout") +
         asserts("tunesmith::PrepareLanes<shape, backward>::rows", prepare_rows(settings),
                 "the host launches blocks of as many rows");
}

}  // namespace tunesmith::attention_backward
