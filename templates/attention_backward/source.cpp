// Entry points of the generated kernels of attention's backward pass, and their descriptions in the source.

#include "templates/attention/source/block_mask.h"
#include "templates/attention/source/kernel_source.h"
#include "templates/attention/source/modification.h"
#include "templates/attention_backward/aux_gradient.h"
#include "templates/attention_backward/constants.h"
#include "templates/attention_backward/kernel_layout.h"
#include "templates/attention_backward/op.h"

namespace tunesmith {

using namespace attention_backward;

namespace {

/// Sets the texts that say what the kernels do in this configuration, and how threads map to the data.
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

std::string entry(const std::string& name, const std::string& bounds, const char* type, const std::string& call) {
  return "extern \"C\" __global__ void __launch_bounds__(" + bounds + ")\n" + name +
         "(const __grid_constant__ tunesmith::" + type + " params) {\n  tunesmith::" + call + ";\n}\n";
}

}  // namespace

SourceParts ParsedAttentionBackward::parts_of(const TypedConfig& typed) const {
  const Settings& settings = settings_;
  const attention::Settings& forward = settings.forward;
  const std::string variant(enum_name(typed.variant));
  const bool mma = typed.variant == Variant::mma, wgmma = typed.variant == Variant::wgmma;
  const Argument argument = argument_of(typed, settings);
  const std::string common = "(" + std::string(argument.common) + ")";
  SourceParts parts;
  parts.specialized_for = attention::specialized_for(forward);
  describe(typed, settings, parts);
  if (mma) parts.min_arch = "sm_80";
  if (wgmma) parts.min_arch = "sm_90a";
  parts.includes = {"attention_backward/" + variant + ".cuh"};
  parts.kernel = "attention_backward_" + std::string(wgmma ? "" : "keys_") + variant;
  parts.constants = constants_text(typed, settings);
  const std::string modification = attention::modification_type(forward);
  const auto common_entry = [&](const std::string& name, std::int64_t threads, const std::string& call) {
    return entry(name, std::to_string(threads), argument.type, call + common);
  };
  parts.kernels =
      common_entry("attention_backward_prepare", prepare_threads, "attention_backward_prepare<Element, shape, backward>");
  if (wgmma) {
    const std::string bounds = ", 1";
    parts.kernels += entry(keys_kernel(typed), std::to_string(typed.block_threads(Pass::keys, settings)) + bounds,
                           argument.type, parts.kernel + "<Element, shape, " + modification + ", config>" + argument.own);
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
                     parts.kernel + arguments + (mma ? "keys_config>" : "config>")) +
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

}  // namespace tunesmith
