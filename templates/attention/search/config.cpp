#include "templates/attention/search/config.h"

#include <algorithm>

#include "templates/attention/search/split_config.h"
#include "templates/config_values.h"
#include "templates/variant_config.h"
#include "tunesmith/description.h"

namespace tunesmith::attention {
namespace {

/// Describes the fields of config.variant in the order of a configuration's text.
template <typename Self, typename Visitor>
void describe_fields(Self& config, Visitor& v) {
  const Variant variant = config.variant;
  const bool simt = variant == Variant::simt, wgmma = variant == Variant::wgmma, mma = variant == Variant::mma,
             split = variant == Variant::split;
  const auto field = [&](bool has, std::string_view name, auto& member, FieldFacts facts) {
    if (!has) return;
    facts.required = true;
    v.field(name, member, facts);
  };
  FieldFacts tile_q{.meaning = "queries of a block", .range = {64, 256}, .step = 64};
  if (simt) tile_q = {.meaning = "queries of a block", .range = {16, 256}, .power_of_two = true};
  if (mma) tile_q = {.meaning = "queries of a block, 16 or 32 for each warp", .range = {16, 512}, .step = 16};
  if (split) tile_q = {.meaning = "queries of a block, of all heads that share keys", .range = {16, 64}, .step = 16};

  field(true, "variant", config.variant, {.meaning = "the kernel"});
  field(simt, "threads", config.threads, {.meaning = "threads of a block", .range = {32, 512}, .power_of_two = true});
  field(mma || split, "warps", config.warps, {.meaning = "warps of a block", .range = {1, 16}});
  field(true, "tile_q", config.tile_q, tile_q);
  field(true, "tile_kv", config.tile_kv, {.meaning = "keys of a K/V tile", .range = {16, 256}, .step = 16});
  field(wgmma, "q_stages", config.q_stages, {.meaning = "Q tiles in flight or in use", .range = {1, 2}});
  field(!simt, "stages", config.stages, {.meaning = "K/V tiles in flight or in use", .range = {1, mma ? 3 : 8}});
  field(wgmma, "o_slabs", config.o_slabs,
        {.meaning = "slabs of 64 output columns that a warpgroup stages at once", .range = {1, 4}});
  field(wgmma, "ping_pong", config.ping_pong, {.meaning = "ping-pong scheduling of warpgroups"});
  field(mma, "q_in_registers", config.q_in_registers,
        {.meaning = "Q stays in registers; 0: it is loaded from shared memory for every K/V tile"});
  field(mma, "blocks_per_sm", config.blocks_per_sm,
        {.meaning = "resident blocks of a multiprocessor that bound a thread's registers", .range = {1, 8}});
  field(split, "splits", config.splits,
        {.meaning = "parts of the keys; 0: enough to fill the device, or one for each block of a cluster",
         .range = {0, 1024}});
  field(split, "cluster", config.cluster,
        {.meaning = "blocks of a cluster, which combines its parts in shared memory; 1: a second kernel combines them",
         .range = {1, 16},
         .power_of_two = true});
}

Description described(TypedConfig& config) {
  return Description([&](Description& description) { describe_fields(config, description); });
}

}  // namespace

Variant parse_variant(const Fields& fields) { return read_variant<Variant>("attention's configurations", fields); }

std::vector<FieldInfo> config_field_infos() {
  std::vector<FieldInfo> all;
  for (std::size_t i = 0; i < enum_names<Variant>.size(); ++i) {
    TypedConfig config;
    config.variant = static_cast<Variant>(i);
    for (FieldInfo& info : described(config).field_infos()) {
      const std::string range = std::string(enum_names<Variant>[i]) + ": " + info.range_text;
      const auto known = std::ranges::find(all, info.name, &FieldInfo::name);
      if (known != all.end()) {
        if (!info.range_text.empty()) known->range_text += "; " + range;
        continue;
      }
      if (!info.range_text.empty()) info.range_text = range;
      all.push_back(std::move(info));
    }
  }
  return all;
}

TypedConfig TypedConfig::parse(const Config& config) {
  // Earlier versions had these as options of the search. No record has other values.
  const Fields fields = without(config.fields, {{"order", "counter"}, {"rescale", std::int64_t{8}}});
  return read_fields(parse_variant(fields), fields, described);
}

Config TypedConfig::to_config() const { return {fields_of(*this, described)}; }

std::int64_t slabs(std::int64_t columns) noexcept { return (columns + 63) / 64; }

namespace {

/// As key_row_bytes in attention/shape.cuh.
std::int64_t row_bytes(const Settings& settings, Side side) noexcept {
  return settings.width(side) * size_of(settings.kv_dtype) + (settings.has_row_scales() ? 4 : 0);
}

}  // namespace

std::int64_t tile_bytes(const TypedConfig& config, const Settings& settings) noexcept {
  return config.tile_kv * (row_bytes(settings, Side::k) + row_bytes(settings, Side::v));
}

std::int64_t conversion_registers(const Settings& settings) noexcept { return settings.kv_dtype == DType::e4m3 ? 16 : 0; }

bool sums_weights(const Settings& settings) noexcept { return settings.head_dim_v == 64 && settings.dropout == 0; }

namespace {

/// As SimtTiles, WgmmaTiles and MmaTiles lay it out; the generated source asserts the size.
std::int64_t simt_smem_bytes(const TypedConfig& config, const Settings& settings) {
  constexpr std::int64_t pad = 4;
  const std::int64_t q = config.tile_q * (settings.head_dim + pad);
  const std::int64_t kv = config.tile_kv * (std::max(settings.head_dim, settings.head_dim_v) + pad);
  return (q + kv + config.tile_q * (config.tile_kv + pad)) * 4;
}
std::int64_t wgmma_smem_bytes(const TypedConfig& config, const Settings& settings) {
  constexpr std::int64_t row = 128;
  const std::int64_t q = config.q_stages * slabs(settings.head_dim) * config.tile_q * row;
  const std::int64_t kv = config.stages * (slabs(settings.head_dim) + slabs(settings.head_dim_v)) * config.tile_kv * row;
  const std::int64_t o = config.o_slabs * config.tile_q * row,
                     barriers = 8 * (2 * config.q_stages + 4 * config.stages) + 32 * config.q_stages,
                     sent = settings.mask_mod.empty() ? 0 : 4 * config.stages;
  const bool bias_by_product = settings.alibi && settings.softcap == 0 && settings.score_mod.empty();
  const std::int64_t bias = bias_by_product ? config.tile_kv * 16 + config.q_stages * 640 : 0;
  const std::int64_t ones = sums_weights(settings) ? 16 * row : 0;
  return q + kv + o + bias + ones + barriers + sent;
}

std::int64_t mma_smem_bytes(const TypedConfig& config, const Settings& settings) {
  const std::int64_t q = config.tile_q * settings.head_dim * 2, k = config.tile_kv * row_bytes(settings, Side::k);
  const std::int64_t stage = tile_bytes(config, settings), stages = config.stages * stage;
  const std::int64_t o = settings.vector(Side::o) >= 8 ? config.tile_q * settings.head_dim_v * 2 : 0;
  if (!config.q_in_registers) return std::max(q + stages, o);
  return std::max({stages, (config.stages == 1 ? k : stages - stage) + q, o});
}

}  // namespace

int TypedConfig::block_threads() const noexcept {
  switch (variant) {
    case Variant::simt: return threads;
    case Variant::wgmma: return tile_q * 2 + 128;
    case Variant::mma:
    case Variant::split: return warps * 32;
  }
  return 0;
}

std::int64_t TypedConfig::smem_bytes(const Settings& settings) const noexcept {
  switch (variant) {
    case Variant::simt: return simt_smem_bytes(*this, settings);
    case Variant::wgmma: return wgmma_smem_bytes(*this, settings);
    case Variant::mma: return mma_smem_bytes(*this, settings);
    case Variant::split: return split_smem_bytes(*this, settings);
  }
  return 0;
}

int TypedConfig::registers_needed(const Settings& settings) const noexcept {
  std::int64_t registers = 32;  // besides the tiles
  switch (variant) {
    case Variant::simt: {
      // Outputs, scores and operands.
      const std::int64_t queries = tile_q * 16 / threads, keys = tile_kv / 16, groups = slabs(settings.head_dim_v);
      registers += queries * groups * 4 + queries * keys + 4 * std::max(queries + keys, queries + 1);
      break;
    }
    case Variant::wgmma:
      registers += settings.head_dim_v / 2 + tile_kv / 2 + tile_kv / 4;  // and weights
      if (settings.dropout > 0) registers += 24;                         // random numbers
      break;
    case Variant::mma: {
      const std::int64_t blocks = tile_q / (16 * warps), steps = q_in_registers ? (settings.head_dim + 15) / 16 : 1;
      registers += blocks * (settings.head_dim_v / 2 + tile_kv / 2 + steps * 4) + conversion_registers(settings);
      break;
    }
    case Variant::split: return split_registers_needed(*this, settings);
  }
  return static_cast<int>(registers);
}

}  // namespace tunesmith::attention
