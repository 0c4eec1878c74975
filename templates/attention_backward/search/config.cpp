#include "templates/attention_backward/search/config.h"

#include <algorithm>

#include "templates/config_values.h"
#include "templates/variant_config.h"
#include "tunesmith/description.h"

namespace tunesmith::attention_backward {
namespace {

/// Describes the fields of config.variant in the order of a configuration's text.
void describe_fields(TypedConfig& config, Description& v) {
  const auto field = [&](std::string_view name, auto& member, FieldFacts facts) {
    facts.required = true;
    v.field(name, member, facts);
  };
  field("variant", config.variant, {.meaning = "the kernels"});
  if (config.variant == Variant::simt) {
    field("threads", config.threads, {.meaning = "threads of a block", .range = {32, 512}, .power_of_two = true});
    field("tile_q", config.tile_q, {.meaning = "queries of a tile", .range = {16, 128}, .power_of_two = true});
    field("tile_kv", config.tile_kv, {.meaning = "keys of a tile", .range = {16, 128}, .power_of_two = true});
    return;
  }
  if (config.variant == Variant::wgmma) {
    field("roles", config.roles, {.meaning = "what two warpgroups share: the keys of a block, or the gradients"});
    field("tile_q", config.tile_q, {.meaning = "queries of a tile", .range = {64, 128}, .power_of_two = true});
    field("stages", config.stages, {.meaning = "Q tiles, and dO tiles, in flight or in use", .range = {2, 3}});
    field("ahead", config.ahead, {.meaning = "S of the next tile is computed right after dK"});
    v.field("cluster", config.cluster,
            {.meaning = "blocks of a cluster that holds all keys of a key head and adds dq in its shared memory; 0: dq is "
                        "summed in the workspace",
             .range = {2, 8},
             .power_of_two = true,
             .zero_too = true,
             .omit_default = true});
    v.field(
        "head_split", config.head_split,
        {.meaning = "blocks of a cluster that share the query heads of a key head and add dk and dv in shared memory; 0: "
                    "one block goes through all of them",
         .range = {2, 8},
         .power_of_two = true,
         .zero_too = true,
         .omit_default = true});
    v.field("adders", config.adders,
            {.meaning = "a fourth warpgroup loads tiles and adds to the sums of dq, as it always does if deterministic=1 "
                        "and roles=keys",
             .omit_default = true});
    v.field(
        "kernels", config.kernels,
        {.meaning = "1: one kernel computes dk and dv and adds to dq; 2: dq has a kernel of its own, which computes S and "
                    "dP again and adds to nothing in global memory",
         .range = {1, 2},
         .omit_default = true});
    v.field(
        "dq_tile_q", config.dq_tile_q,
        {.meaning = "queries of a block of that kernel", .range = {64, 128}, .power_of_two = true, .omit_default = true});
    v.field("dq_tile_kv", config.dq_tile_kv,
            {.meaning = "keys of a tile that it streams", .range = {64, 128}, .step = 32, .omit_default = true});
    v.field("dq_stages", config.dq_stages,
            {.meaning = "K tiles that it has in flight or in use; V tiles are one fewer",
             .range = {2, 3},
             .omit_default = true});
    v.field("persistent", config.persistent,
            {.meaning = "as many blocks as the device has multiprocessors go through the keys of all blocks, and load those "
                        "that follow early",
             .omit_default = true});
    return;
  }
  const Range warps{1, 16}, kept{16, 256}, streamed{16, 128}, stages{1, 2};
  field("kv_warps", config.keys.warps, {.meaning = "warps of a block that computes dk and dv", .range = warps});
  field("kv_kept", config.keys.kept, {.meaning = "keys of such a block", .range = kept, .step = 16});
  field("kv_streamed", config.keys.streamed,
        {.meaning = "queries of a tile that it streams", .range = streamed, .power_of_two = true});
  field("kv_stages", config.keys.stages, {.meaning = "such tiles in flight or in use", .range = stages});
  field("kv_split", config.keys.split, {.meaning = "different warps compute dk and dv"});
  field("q_warps", config.queries.warps, {.meaning = "warps of a block that computes dq", .range = warps});
  field("q_kept", config.queries.kept, {.meaning = "queries of such a block", .range = kept, .power_of_two = true});
  field("q_streamed", config.queries.streamed, {.meaning = "keys of a tile that it streams", .range = streamed, .step = 16});
  field("q_stages", config.queries.stages, {.meaning = "such tiles in flight or in use", .range = stages});
}

Description described(TypedConfig& config) {
  return Description([&](Description& description) { describe_fields(config, description); });
}

/// Reads the variant. Throws Error(invalid_argument) that lists the variants.
Variant parse_variant(const Fields& fields) { return read_variant<Variant>("attention_backward's configurations", fields); }

}  // namespace

std::vector<FieldInfo> config_field_infos() {
  std::vector<FieldInfo> all;
  for (std::size_t i = 0; i < enum_names<Variant>.size(); ++i) {
    TypedConfig config;
    config.variant = static_cast<Variant>(i);
    for (FieldInfo& info : described(config).field_infos())
      if (std::ranges::find(all, info.name, &FieldInfo::name) == all.end()) all.push_back(std::move(info));
  }
  return all;
}

TypedConfig TypedConfig::parse(const Config& config) {
  return read_fields(parse_variant(config.fields), config.fields, described);
}

Config TypedConfig::to_config() const { return {fields_of(*this, described)}; }

}  // namespace tunesmith::attention_backward
