#include "templates/attention/attention_config.h"

#include <algorithm>

#include "templates/attention/attention_split_config.h"
#include "tunesmith/error.h"

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
    case Variant::split: return {"variant", "warps", "tile_q", "tile_kv", "stages", "splits", "rescale"};
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
       "queries of a block; simt: a power of two from 16 to 256; wgmma: 64 to 256 in steps of 64; mma: 16 or 32 for each warp; split: "
       "16 to 64 in steps of 16, those of all heads that share keys",
       "",
       {}},
      {"tile_kv", "keys of a tile, a multiple of 16 up to 256", "", {}},
      {"stages", "wgmma, mma, split: tiles of keys that are on their way or in use, 1 to 8; mma: 1 to 3", "", {}},
      {"splits", "split: parts that the keys are split into, 1 to 1024; 0: as many as fill the device", "", {}},
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

TypedConfig TypedConfig::parse(const Config& config) {
  const Fields& fields = config.fields;
  TypedConfig typed;
  typed.variant = parse_variant(fields);
  const Words allowed = fields_of(typed.variant);
  check_fields_of_variant(fields, attention::name(typed.variant), allowed);
  for (const std::string_view field : allowed) {
    if (field == "threads") typed.threads = power_of_two_of(fields, field, 32, 512);
    if (field == "warps") typed.warps = integer_of(fields, field, 1, 16);
    if (field == "tile_q") typed.tile_q = tile_q_of(fields, typed.variant);
    if (field == "tile_kv") typed.tile_kv = integer_of(fields, field, 16, 256, 16);
    if (field == "stages") typed.stages = integer_of(fields, field, 1, typed.variant == Variant::mma ? 3 : 8);
    if (field == "splits") typed.splits = integer_of(fields, field, 0, 1024);
    if (field == "q_in_registers") typed.q_in_registers = integer_of(fields, field, 0, 1);
    if (field == "blocks_per_sm") typed.blocks_per_sm = integer_of(fields, field, 1, 8);
    if (field == "turns") typed.turns = integer_of(fields, field, 0, 1);
    if (field == "q_stages") typed.q_stages = integer_of(fields, field, 1, 2);
    if (field == "o_slabs") typed.o_slabs = integer_of(fields, field, 1, 4);
    if (field == "order") typed.order = word_of(fields, field, order_words);
    if (field == "rescale") typed.rescale = integer_of(fields, field, 0, 8);
  }
  return typed;
}

Config TypedConfig::to_config() const {
  Config config;
  for (const std::string_view field : fields_of(variant)) {
    if (field == "variant") config.fields.set(field, std::string(attention::name(variant)));
    if (field == "threads") config.fields.set(field, std::int64_t{threads});
    if (field == "warps") config.fields.set(field, std::int64_t{warps});
    if (field == "tile_q") config.fields.set(field, std::int64_t{tile_q});
    if (field == "tile_kv") config.fields.set(field, std::int64_t{tile_kv});
    if (field == "stages") config.fields.set(field, std::int64_t{stages});
    if (field == "splits") config.fields.set(field, std::int64_t{splits});
    if (field == "q_in_registers") config.fields.set(field, std::int64_t{q_in_registers});
    if (field == "blocks_per_sm") config.fields.set(field, std::int64_t{blocks_per_sm});
    if (field == "turns") config.fields.set(field, std::int64_t{turns});
    if (field == "q_stages") config.fields.set(field, std::int64_t{q_stages});
    if (field == "o_slabs") config.fields.set(field, std::int64_t{o_slabs});
    if (field == "order") config.fields.set(field, order);
    if (field == "rescale") config.fields.set(field, std::int64_t{rescale});
  }
  return config;
}

namespace {

std::int64_t slabs(std::int64_t columns) { return (columns + 63) / 64; }

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
                     barriers = 8 * (2 * config.q_stages + 4 * config.stages) + 32 * config.q_stages;
  return q + kv + o + barriers;
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

namespace {

std::string why_simt_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  if (config.threads > device.max_threads_per_block)
    return "threads is " + std::to_string(config.threads) + "; the device allows " +
           std::to_string(device.max_threads_per_block);
  if (config.tile_q % (config.threads / 16) != 0)
    return "tile_q is " + std::to_string(config.tile_q) + ", but threads / 16 = " + std::to_string(config.threads / 16) +
           " threads share its queries; it must be a multiple";
  if (const int registers = config.registers_needed(settings); registers > 255)
    return "tiles of these sizes take " + std::to_string(registers) + " registers a thread; there are 255";
  if (config.threads * config.registers_needed(settings) > device.registers_per_sm)
    return "tiles of these sizes do not fit into the registers";
  return {};
}

std::string why_wgmma_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  if (device.kind != DeviceInfo::Kind::cuda) return "wgmma runs on GPUs of sm_90a; the device is " + device.name;
  if (tunesmith::name(device.arch) != "sm_90a") return "wgmma is sm_90a's; the device is " + tunesmith::name(device.arch);
  if (settings.dtype == DType::f32) return "wgmma multiplies f16 and bf16; dtype is f32";
  for (const Side side : {Side::q, Side::k, Side::v, Side::o})
    if (settings.vector(side) < 8)
      return std::string("the copy engine takes rows that start at multiples of 16 bytes; those of ") +
             side_names[static_cast<std::size_t>(side)] + " do not";
  if (settings.positions(Side::k) == 0) return "the copy engine takes no empty arrays, and there are no keys";
  if (config.turns == 1 && config.tile_q == 64) return "turns is 1, but tile_q is 64: there is one warpgroup";
  // Tiles of keys that the first warpgroup of a block does not see and the last one does.
  if (const std::int64_t ahead = (config.tile_q - 64 + config.tile_kv - 1) / config.tile_kv;
      settings.bounded_right() && config.turns == 0 && ahead > config.stages)
    return "the first queries of a block would have to pass over " + std::to_string(ahead) + " tiles of keys; with " +
           std::to_string(config.stages) + " stages it can be as many";
  const int limit = config.tile_q == 256 ? 112 : config.tile_q == 192 ? 160 : 240;
  if (const int registers = config.registers_needed(settings); registers > limit)
    return "tiles of these sizes take " + std::to_string(registers) + " registers a thread; there are " +
           std::to_string(limit);
  if (config.o_slabs > slabs(settings.head_dim_v))
    return "o_slabs is " + std::to_string(config.o_slabs) + ", but the output has " +
           std::to_string(slabs(settings.head_dim_v)) + " times 64 columns";
  return {};
}

/// Registers a thread has where as many blocks are to share a multiprocessor.
int register_limit(const TypedConfig& config, const DeviceInfo& device) {
  return std::min(255, device.registers_per_sm / (config.block_threads() * config.blocks_per_sm) / 8 * 8);
}

std::string why_mma_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  if (device.arch.number() < 80) return "mma takes sm_80 or later; the device is " + tunesmith::name(device.arch);
  if (settings.dtype == DType::f32) return "mma multiplies f16 and bf16; dtype is f32";
  if (config.tile_q != 16 * config.warps && config.tile_q != 32 * config.warps)
    return "tile_q is " + std::to_string(config.tile_q) + " with " + std::to_string(config.warps) +
           " warps; each has 16 or 32 queries";
  const int limit = register_limit(config, device);
  if (const int registers = config.registers_needed(settings); registers > limit)
    return "tiles of these sizes take " + std::to_string(registers) + " registers a thread; there are " +
           std::to_string(limit);
  return {};
}

}  // namespace

std::string why_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  std::string reason;
  switch (config.variant) {
    case Variant::simt: reason = why_simt_invalid(config, settings, device); break;
    case Variant::wgmma: reason = why_wgmma_invalid(config, settings, device); break;
    case Variant::mma: reason = why_mma_invalid(config, settings, device); break;
    case Variant::split: reason = why_split_invalid(config, settings, device); break;
  }
  if (!reason.empty()) return reason;
  if (const std::int64_t bytes = config.smem_bytes(settings); bytes > device.smem_bytes_per_block)
    return "tiles of these sizes take " + std::to_string(bytes) + " bytes of shared memory; a block has " +
           std::to_string(device.smem_bytes_per_block);
  return {};
}

namespace {

TypedConfig default_simt(const Settings& settings, const DeviceInfo& device) {
  TypedConfig config;
  // The largest square tile of which two blocks share a multiprocessor, but no larger than the queries.
  const std::int64_t half = std::min(device.smem_bytes_per_block, device.smem_bytes_per_sm / 2 - 1024);
  while (config.tile_q > 16 && config.tile_q / 2 >= settings.seq_q) config.tile_q /= 2;
  while (config.smem_bytes(settings) > half && (config.tile_q > 16 || config.tile_kv > 32)) {
    if (config.tile_q > config.tile_kv || config.tile_kv <= 32)
      config.tile_q /= 2;
    else
      config.tile_kv /= 2;
  }
  // Four queries and four keys to a thread.
  config.threads = std::clamp(config.tile_q * 4, 64, 256);
  return config;
}

/// With as much of the next tile's queries and of the output in shared memory as fits: two tiles of queries let the next
/// tile's first product run behind the end of this one, and an output that is staged as a whole waits once.
TypedConfig fitted(TypedConfig config, const Settings& settings, const DeviceInfo& device) {
  const int all = static_cast<int>(slabs(settings.head_dim_v));
  for (const int q_stages : {2, 1})
    for (int o_slabs = all; o_slabs >= 1; --o_slabs) {
      config.q_stages = q_stages;
      config.o_slabs = o_slabs;
      if (config.smem_bytes(settings) <= device.smem_bytes_per_block) return config;
    }
  return config;
}

/// What was fastest on an H200 (bench/RESULTS.md): as many queries as registers allow, and keys that leave room for stages.
TypedConfig default_wgmma(const Settings& settings, const DeviceInfo& device) {
  TypedConfig config;
  config.variant = Variant::wgmma;
  const std::int64_t widest = std::max(settings.head_dim, settings.head_dim_v);
  // A user's text takes registers too, and three warpgroups have none left: they spill.
  config.tile_q = widest <= 128 && !settings.modified() ? 192 : 128;
  const bool plain = !settings.modified() && settings.softcap == 0 && !settings.alibi && !settings.sinks;
  if (widest <= 64 && plain && settings.seq_q <= 1024) config.tile_q = 256;
  while (config.tile_q > 64 && config.tile_q - 64 >= settings.seq_q) config.tile_q -= 64;
  const bool three = config.tile_q == 192;
  if (widest <= 64)
    config.tile_kv = config.tile_q == 256 ? 64 : three && settings.softcap != 0 ? 96 : 128;
  else if (widest <= 128)
    config.tile_kv = three ? 64 : 128;
  else
    config.tile_kv = widest <= 192 ? 96 : 64;
  config.stages = widest <= 64 || three ? 4 : 2;
  config.order = "counter";
  config = fitted(config, settings, device);
  while (config.tile_kv > 16 && config.smem_bytes(settings) > device.smem_bytes_per_block) config.tile_kv -= 16;
  return config;
}

struct MmaTiling {
  int tile_q, warps, tile_kv, stages, q_in_registers, blocks_per_sm;
};
/// With as many blocks as shared memory has room for, or one where more make no difference.
TypedConfig mma_config(const MmaTiling& tiling, const Settings& settings, const DeviceInfo& device) {
  TypedConfig config;
  config.variant = Variant::mma;
  config.tile_q = tiling.tile_q;
  config.warps = tiling.warps;
  config.tile_kv = tiling.tile_kv;
  config.stages = tiling.stages;
  config.q_in_registers = tiling.q_in_registers;
  // A user's text takes registers too.
  const int wanted = settings.modified() ? std::min(tiling.blocks_per_sm, 2) : tiling.blocks_per_sm;
  const auto room = static_cast<int>(device.smem_bytes_per_sm / (config.smem_bytes(settings) + 1024));
  config.blocks_per_sm = std::clamp(wanted, 1, std::max(room, 1));
  if (register_limit(config, device) == 255) config.blocks_per_sm = 1;
  return config;
}

/// Good ones, the best guess first: two or three blocks to a multiprocessor, so that one computes while another waits.
std::vector<MmaTiling> mma_tilings(const Settings& settings, const DeviceInfo& device) {
  const std::int64_t widest = std::max(settings.head_dim, settings.head_dim_v);
  if (settings.seq_q <= 16)
    return {{16, 1, 64, 2, 1, 1},  {16, 1, 32, 3, 1, 1}, {16, 1, 64, 1, 1, 1},
            {16, 1, 128, 1, 1, 1}, {16, 1, 32, 2, 1, 1}, {16, 1, 32, 2, 0, 1}};
  if (settings.seq_q <= 32)
    return {{32, 2, 64, 2, 1, 1}, {32, 2, 64, 1, 1, 1}, {32, 1, 64, 2, 0, 1},
            {32, 2, 32, 3, 1, 1}, {32, 2, 32, 2, 1, 1}, {32, 2, 32, 2, 0, 1}};
  std::vector<MmaTiling> tilings;
  if (widest <= 64)
    tilings = {{128, 4, 64, 2, 0, 3}, {128, 4, 64, 1, 0, 3},  {64, 4, 64, 2, 1, 3},  {128, 4, 64, 1, 1, 1},
               {64, 4, 128, 1, 1, 3}, {128, 4, 112, 1, 0, 1}, {128, 8, 64, 2, 1, 2}, {64, 4, 64, 1, 1, 4},
               {128, 4, 64, 2, 0, 1}, {128, 8, 128, 1, 1, 1}};
  else if (widest <= 128 && device.smem_bytes_per_block > 128 << 10)
    tilings = {{128, 4, 64, 1, 0, 1}, {64, 4, 64, 1, 0, 3},   {64, 4, 64, 1, 1, 3}, {128, 8, 64, 1, 1, 1},
               {64, 4, 64, 2, 1, 1},  {128, 8, 128, 1, 1, 1}, {64, 4, 32, 2, 0, 4}, {128, 4, 32, 2, 0, 1},
               {128, 4, 48, 1, 0, 1}, {64, 4, 128, 1, 0, 1}};
  else if (widest <= 128)
    tilings = {{64, 4, 64, 1, 1, 3},  {128, 4, 32, 1, 0, 1},  {64, 4, 64, 1, 1, 1}, {128, 8, 64, 1, 1, 1},
               {64, 4, 32, 2, 1, 3},  {128, 8, 128, 1, 1, 1}, {64, 4, 64, 2, 1, 1}, {64, 4, 64, 1, 0, 1},
               {128, 8, 64, 2, 1, 1}, {64, 4, 96, 1, 1, 1}};
  else
    tilings = {{64, 4, 64, 1, 0, 1}, {128, 8, 64, 1, 0, 1}, {64, 4, 32, 2, 0, 1},
               {64, 4, 48, 1, 0, 1}, {64, 4, 32, 1, 0, 1},  {128, 8, 32, 2, 0, 1},
               {64, 4, 96, 1, 0, 1}, {32, 2, 32, 2, 0, 1},  {64, 4, 16, 2, 0, 1}};
  if (settings.seq_q <= 64)
    std::stable_partition(tilings.begin(), tilings.end(), [](const MmaTiling& tiling) { return tiling.tile_q <= 64; });
  return tilings;
}

/// The first that is valid; always one where mma is.
TypedConfig default_mma(const Settings& settings, const DeviceInfo& device) {
  const std::vector<MmaTiling> tilings = mma_tilings(settings, device);
  for (const MmaTiling& tiling : tilings)
    if (const TypedConfig config = mma_config(tiling, settings, device); why_invalid(config, settings, device).empty())
      return config;
  return mma_config(tilings.front(), settings, device);
}

void add_mma(const Settings& settings, const DeviceInfo& device, bool full, std::vector<TypedConfig>& space) {
  for (const MmaTiling& tiling : mma_tilings(settings, device)) space.push_back(mma_config(tiling, settings, device));
  if (!full) return;
  for (const int tile_q : {128, 64, 32, 16})
    for (const int rows : {32, 16})
      for (const int tile_kv : {64, 128, 96, 32, 48, 112})
        for (const int stages : {1, 2, 3})
          for (const int q_in_registers : {0, 1})
            for (const int blocks_per_sm : {1, 2, 3, 4})
              for (const int rescale : {8, 0}) {
                const int warps = tile_q / rows;
                if (warps < 1 || warps > 8) continue;
                if (tile_q > 16 && tile_q / 2 >= settings.seq_q) continue;  // mostly idle
                TypedConfig config =
                    mma_config({tile_q, warps, tile_kv, stages, q_in_registers, blocks_per_sm}, settings, device);
                if (config.blocks_per_sm != blocks_per_sm || (rescale != 8 && blocks_per_sm > 1)) continue;
                config.rescale = rescale;
                space.push_back(config);
              }
}

void add_simt(const Settings& settings, bool full, std::vector<TypedConfig>& space) {
  for (const int tile_q : full ? std::vector<int>{64, 128, 32, 16} : std::vector<int>{64, 32, 128})
    for (const int tile_kv : full ? std::vector<int>{64, 32, 48, 16} : std::vector<int>{64, 32})
      for (const int threads : full ? std::vector<int>{256, 128, 64} : std::vector<int>{256, 128}) {
        if (tile_q >= 2 * settings.seq_q && tile_q > 16) continue;  // mostly idle
        TypedConfig config;
        config.tile_q = tile_q;
        config.tile_kv = tile_kv;
        config.threads = threads;
        space.push_back(config);
      }
}

void add_wgmma(const Settings& settings, const DeviceInfo& device, bool full, std::vector<TypedConfig>& space) {
  const std::int64_t widest = std::max(settings.head_dim, settings.head_dim_v);
  const std::vector<int> tiles_kv = widest <= 64    ? std::vector<int>{128, 64, 96, 48, 160, 176}
                                    : widest <= 128 ? std::vector<int>{128, 64, 112, 96, 176}
                                                    : std::vector<int>{64, 80, 48, 96};
  const std::size_t some = full ? tiles_kv.size() : 3;
  const std::vector<const char*> orders =
      full ? std::vector<const char*>{"counter", "fixed"} : std::vector<const char*>{"counter"};
  for (const int tile_q : {256, 192, 128, 64})
    for (std::size_t i = 0; i < some; ++i)
      for (const int stages : full ? std::vector<int>{2, 3, 4, 6} : std::vector<int>{2, 4})
        for (const char* order : orders)
          for (const int rescale : full ? std::vector<int>{8, 0} : std::vector<int>{8}) {
            if (tile_q > 64 && tile_q - 64 >= settings.seq_q) continue;  // a warpgroup without queries
            TypedConfig config;
            config.variant = Variant::wgmma;
            config.tile_q = tile_q;
            config.tile_kv = tiles_kv[i];
            config.stages = stages;
            config.order = order;
            config.rescale = rescale;
            space.push_back(fitted(config, settings, device));
            if (tile_q > 64 && (full || i == 0)) {
              space.push_back(space.back());
              space.back().turns = 1;
            }
          }
}

}  // namespace

TypedConfig default_config(Variant variant, const Settings& settings, const DeviceInfo& device) {
  switch (variant) {
    case Variant::simt: return default_simt(settings, device);
    case Variant::wgmma: return default_wgmma(settings, device);
    case Variant::mma: return default_mma(settings, device);
    case Variant::split: return default_split(settings, device);
  }
  return {};
}

TypedConfig default_config(const Settings& settings, const DeviceInfo& device) {
  if (is_decoding(settings))
    if (const TypedConfig config = default_split(settings, device); why_invalid(config, settings, device).empty())
      return config;
  for (const Variant variant : {Variant::wgmma, Variant::mma})
    if (const TypedConfig config = default_config(variant, settings, device); why_invalid(config, settings, device).empty())
      return config;
  return default_simt(settings, device);
}

Config complete_config(const Config& partial, const Settings& settings, const DeviceInfo& device) {
  const Variant variant =
      partial.fields.contains("variant") ? parse_variant(partial.fields) : default_config(settings, device).variant;
  Config config = default_config(variant, settings, device).to_config();
  for (const auto& [field, value] : partial.fields) config.fields.set(field, value);
  TypedConfig typed = TypedConfig::parse(config);
  // Of shared memory the default has what its own tiles leave; other tiles leave something else.
  if (variant == Variant::wgmma) {
    const auto is_free = [&](const char* field) { return !partial.fields.contains(field); };
    const auto fits = [&] { return typed.smem_bytes(settings) <= device.smem_bytes_per_block; };
    const bool refit = is_free("q_stages") && is_free("o_slabs");
    if (refit) typed = fitted(typed, settings, device);
    while (is_free("stages") && typed.stages > 1 && !fits()) {
      --typed.stages;
      if (refit) typed = fitted(typed, settings, device);
    }
  }
  if (const std::string reason = why_invalid(typed, settings, device); !reason.empty())
    throw Error(ErrorCode::invalid_argument, "config '", typed.to_config().text(), "' cannot be used: ", reason);
  return typed.to_config();
}

std::vector<Config> search_space(const Settings& settings, const DeviceInfo& device, Effort effort) {
  const bool full = effort == Effort::full;
  std::vector<TypedConfig> candidates{default_config(settings, device)};
  const Variant best = candidates.front().variant;
  if (best == Variant::wgmma) {
    add_wgmma(settings, device, full, candidates);
    const std::vector<MmaTiling> tilings = mma_tilings(settings, device);
    for (std::size_t i = 0; i < std::min<std::size_t>(tilings.size(), full ? 8 : 3); ++i)
      candidates.push_back(mma_config(tilings[i], settings, device));
  }
  if (best == Variant::mma) add_mma(settings, device, full, candidates);
  if (best == Variant::split) candidates.push_back(default_mma(settings, device));
  if (best == Variant::split || settings.seq_q <= 64) add_split(settings, device, full, candidates);
  // Where tensor cores can be had, nothing else comes near them.
  if (best == Variant::simt)
    add_simt(settings, full, candidates);
  else
    candidates.push_back(default_simt(settings, device));
  std::vector<Config> space;
  for (const TypedConfig& candidate : candidates) {
    if (!why_invalid(candidate, settings, device).empty()) continue;
    if (Config config = candidate.to_config(); std::ranges::find(space, config) == space.end())
      space.push_back(std::move(config));
  }
  return space;
}

}  // namespace tunesmith::attention
