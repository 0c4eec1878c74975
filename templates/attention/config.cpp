#include "templates/attention/config.h"

#include <algorithm>
#include <array>

#include "templates/attention/split_config.h"

namespace tunesmith::attention {
namespace {

const Words variant_words{"simt", "wgmma", "mma", "split"};
const Words order_words{"fixed", "counter"};

int tile_q_of(const Fields& fields, Variant variant) {
  switch (variant) {
    case Variant::simt: return power_of_two_of(fields, "tile_q", 16, 256);
    case Variant::wgmma: return integer_of(fields, "tile_q", 64, 256, 64);
    case Variant::mma: return integer_of(fields, "tile_q", 16, 512, 16);
    case Variant::split: return integer_of(fields, "tile_q", 16, 64, 16);
  }
  return 0;
}

}  // namespace

std::string_view name(Variant variant) noexcept { return variant_words[static_cast<std::size_t>(variant)]; }

Variant parse_variant(const Fields& fields) {
  const std::string word = word_of(fields, "variant", variant_words);
  return static_cast<Variant>(std::ranges::find(variant_words, std::string_view(word)) - variant_words.begin());
}

Words fields_of(Variant variant) {
  switch (variant) {
    case Variant::simt: return {"variant", "threads", "tile_q", "tile_kv"};
    case Variant::wgmma:
      return {"variant", "tile_q", "tile_kv", "q_stages", "stages", "o_slabs", "order", "turns", "rescale"};
    case Variant::mma:
      return {"variant", "warps", "tile_q", "tile_kv", "stages", "q_in_registers", "blocks_per_sm", "rescale"};
    case Variant::split: return {"variant", "warps", "tile_q", "tile_kv", "stages", "splits", "cluster", "rescale"};
  }
  return {};
}

std::vector<FieldInfo> config_field_infos() {
  return {
      {"variant",
       "the kernel: without tensor cores; with Hopper's, fed by the copy engine; with those of sm_80 and later; the same "
       "for "
       "few queries",
       "", variant_words},
      {"threads", "simt: threads per block, a power of two from 32 to 512", "", {}},
      {"warps", "mma, split: warps per block, 1 to 16", "", {}},
      {"tile_q",
       "queries of a block; simt: a power of two from 16 to 256; wgmma: 64 to 256 in steps of 64; mma: 16 or 32 for each "
       "warp; split: "
       "16 to 64 in steps of 16, those of all heads that share keys",
       "",
       {}},
      {"tile_kv", "keys of a tile, a multiple of 16 up to 256", "", {}},
      {"stages", "wgmma, mma, split: tiles of keys that are on their way or in use, 1 to 8; mma: 1 to 3", "", {}},
      {"splits", "split: parts that the keys are split into, 1 to 1024; 0: as many as fill the device", "", {}},
      {"cluster",
       "split: blocks of a cluster, a part of the keys each, that combine parts in shared memory, a power of two up to 16; "
       "1: "
       "a second kernel combines them",
       "",
       {}},
      {"q_in_registers",
       "mma: 1: queries stay in registers; 0: they are fetched from shared memory for every tile of keys",
       "",
       {}},
      {"blocks_per_sm", "mma: blocks that a multiprocessor must have registers for, 1 to 8", "", {}},
      {"turns", "wgmma: 1: warpgroups issue their products in turns", "", {}},
      {"q_stages", "wgmma: tiles of queries that are on their way or in use, 1 or 2", "", {}},
      {"o_slabs", "wgmma: 64 columns of the output that a warpgroup stages at a time, 1 to 4", "", {}},
      {"order", "wgmma: a block takes each n-th tile of queries, or the next one that is left", "", order_words},
      {"rescale",
       "wgmma, mma, split: growth of a row's largest score, as an exponent of 2, without rescaling, 0 to 8",
       "",
       {}},
  };
}

namespace {

/// A field that is a number: where it is kept, and what is allowed.
struct NumberField {
  std::string_view name;
  int TypedConfig::*member;
  int least, most;
  int multiple_of = 1;
};
constexpr std::array<NumberField, 13> number_fields{{{"warps", &TypedConfig::warps, 1, 16},
                                                     {"threads", &TypedConfig::threads, 32, 512},
                                                     {"tile_q", &TypedConfig::tile_q, 16, 512},
                                                     {"tile_kv", &TypedConfig::tile_kv, 16, 256, 16},
                                                     {"stages", &TypedConfig::stages, 1, 8},
                                                     {"splits", &TypedConfig::splits, 0, 1024},
                                                     {"cluster", &TypedConfig::cluster, 1, 16},
                                                     {"q_in_registers", &TypedConfig::q_in_registers, 0, 1},
                                                     {"blocks_per_sm", &TypedConfig::blocks_per_sm, 1, 8},
                                                     {"turns", &TypedConfig::turns, 0, 1},
                                                     {"q_stages", &TypedConfig::q_stages, 1, 2},
                                                     {"o_slabs", &TypedConfig::o_slabs, 1, 4},
                                                     {"rescale", &TypedConfig::rescale, 0, 8}}};

/// Of a name that fields_of() has.
const NumberField& number_field(std::string_view name) {
  return *std::ranges::find(number_fields, name, &NumberField::name);
}

int number_of(const Fields& fields, const NumberField& field, Variant variant) {
  if (field.name == "tile_q") return tile_q_of(fields, variant);
  if (field.name == "threads" || field.name == "cluster")
    return power_of_two_of(fields, field.name, field.least, field.most);
  const int most = field.name == "stages" && variant == Variant::mma ? 3 : field.most;
  return integer_of(fields, field.name, field.least, most, field.multiple_of);
}

}  // namespace

TypedConfig TypedConfig::parse(const Config& config) {
  TypedConfig typed;
  typed.variant = parse_variant(config.fields);
  const Words allowed = fields_of(typed.variant);
  check_fields_of_variant(config.fields, attention::name(typed.variant), allowed);
  for (const std::string_view name : allowed) {
    if (name == "variant") continue;
    if (name == "order") {
      typed.order = word_of(config.fields, name, order_words);
      continue;
    }
    const NumberField& field = number_field(name);
    typed.*field.member = number_of(config.fields, field, typed.variant);
  }
  return typed;
}

Config TypedConfig::to_config() const {
  Config config;
  for (const std::string_view name : fields_of(variant)) {
    if (name == "variant")
      config.fields.set(name, std::string(attention::name(variant)));
    else if (name == "order")
      config.fields.set(name, order);
    else
      config.fields.set(name, std::int64_t{this->*number_field(name).member});
  }
  return config;
}

std::int64_t slabs(std::int64_t columns) noexcept { return (columns + 63) / 64; }

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
  const std::int64_t ones = settings.head_dim_v == 64 ? 16 * row : 0;
  return q + kv + o + bias + ones + barriers + sent;
}

std::int64_t mma_smem_bytes(const TypedConfig& config, const Settings& settings) {
  const std::int64_t q = config.tile_q * settings.head_dim * 2, k = config.tile_kv * settings.head_dim * 2;
  const std::int64_t stage = k + config.tile_kv * settings.head_dim_v * 2, stages = config.stages * stage;
  const std::int64_t o = settings.vector(Side::o) >= 8 ? config.tile_q * settings.head_dim_v * 2 : 0;
  if (config.q_in_registers == 0) return std::max(q + stages, o);
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
  std::int64_t registers = 32;  // for what stands around the tiles
  switch (variant) {
    case Variant::simt: {
      // Outputs, scores, and what they are computed from.
      const std::int64_t queries = tile_q * 16 / threads, keys = tile_kv / 16, groups = slabs(settings.head_dim_v);
      registers += queries * groups * 4 + queries * keys + 4 * std::max(queries + keys, queries + 1);
      break;
    }
    case Variant::wgmma: registers += settings.head_dim_v / 2 + tile_kv / 2 + tile_kv / 4; break;  // and weights
    case Variant::mma: {
      const std::int64_t blocks = tile_q / (16 * warps), steps = q_in_registers == 1 ? (settings.head_dim + 15) / 16 : 1;
      registers += blocks * (settings.head_dim_v / 2 + tile_kv / 2 + steps * 4);
      break;
    }
    case Variant::split: return split_registers_needed(*this, settings);
  }
  return static_cast<int>(registers);
}

}  // namespace tunesmith::attention
