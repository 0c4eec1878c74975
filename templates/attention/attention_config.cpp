#include "templates/attention/attention_config.h"

#include <algorithm>

#include "tunesmith/error.h"

namespace tunesmith::attention {
namespace {

const Words variant_words{"simt", "wgmma"};
const Words order_words{"fixed", "counter"};

}  // namespace

std::string_view name(Variant variant) noexcept { return variant_words[static_cast<std::size_t>(variant)]; }

Variant parse_variant(const Fields& fields) {
  const std::string word = word_of(fields, "variant", variant_words);
  return static_cast<Variant>(std::ranges::find(variant_words, std::string_view(word)) - variant_words.begin());
}

Words fields_of(Variant variant) {
  switch (variant) {
    case Variant::simt: return {"variant", "threads", "tile_q", "tile_kv"};
    case Variant::wgmma: return {"variant", "tile_q", "tile_kv", "stages", "o_slabs", "order", "rescale"};
  }
  return {};
}

std::vector<FieldInfo> config_field_infos() {
  return {
      {"variant", "the kernel: without tensor cores; with Hopper's, fed by the copy engine", "", variant_words},
      {"threads", "simt: threads per block, a power of two from 32 to 512", "", {}},
      {"tile_q", "queries of a block; simt: a power of two from 16 to 256; wgmma: 64, 128 or 192", "", {}},
      {"tile_kv", "keys of a tile, a multiple of 16 up to 256", "", {}},
      {"stages", "wgmma: tiles of keys that are on their way or in use, 1 to 8", "", {}},
      {"o_slabs", "wgmma: 64 columns of the output that a warpgroup stages at a time, 1 to 4", "", {}},
      {"order", "wgmma: a block takes each n-th tile of queries, or the next one that is left", "", order_words},
      {"rescale", "wgmma: growth of a row's largest score, as an exponent of 2, without rescaling, 0 to 8", "", {}},
  };
}

TypedConfig TypedConfig::parse(const Config& config) {
  const Fields& fields = config.fields;
  TypedConfig typed;
  typed.variant = parse_variant(fields);
  const Words allowed = fields_of(typed.variant);
  for (const auto& [field, value] : fields)
    if (std::ranges::find(allowed, std::string_view(field)) == allowed.end())
      throw Error(ErrorCode::invalid_argument, "config field '", field, "' does not belong to variant ",
                  attention::name(typed.variant), "; allowed: ", joined(allowed));
  for (const std::string_view field : allowed) {
    if (field == "threads") typed.threads = power_of_two_of(fields, field, 32, 512);
    if (field == "tile_q")
      typed.tile_q =
          typed.variant == Variant::wgmma ? integer_of(fields, field, 64, 192, 64) : power_of_two_of(fields, field, 16, 256);
    if (field == "tile_kv") typed.tile_kv = integer_of(fields, field, 16, 256, 16);
    if (field == "stages") typed.stages = integer_of(fields, field, 1, 8);
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
    if (field == "tile_q") config.fields.set(field, std::int64_t{tile_q});
    if (field == "tile_kv") config.fields.set(field, std::int64_t{tile_kv});
    if (field == "stages") config.fields.set(field, std::int64_t{stages});
    if (field == "o_slabs") config.fields.set(field, std::int64_t{o_slabs});
    if (field == "order") config.fields.set(field, order);
    if (field == "rescale") config.fields.set(field, std::int64_t{rescale});
  }
  return config;
}

namespace {

std::int64_t slabs(std::int64_t columns) { return (columns + 63) / 64; }

/// As SimtTiles and WgmmaTiles lay it out; the generated source asserts the size.
std::int64_t simt_smem_bytes(const TypedConfig& config, const Settings& settings) {
  constexpr std::int64_t pad = 4;
  const std::int64_t q = config.tile_q * (settings.head_dim + pad);
  const std::int64_t kv = config.tile_kv * (std::max(settings.head_dim, settings.head_dim_v) + pad);
  return (q + kv + config.tile_q * (config.tile_kv + pad)) * 4;
}
std::int64_t wgmma_smem_bytes(const TypedConfig& config, const Settings& settings) {
  constexpr std::int64_t row = 128;
  const std::int64_t q = slabs(settings.head_dim) * config.tile_q * row;
  const std::int64_t kv = config.stages * (slabs(settings.head_dim) + slabs(settings.head_dim_v)) * config.tile_kv * row;
  const std::int64_t o = config.o_slabs * config.tile_q * row, barriers = 8 * (2 + 4 * config.stages) + 16;
  return q + kv + o + barriers;
}

}  // namespace

std::int64_t TypedConfig::smem_bytes(const Settings& settings) const noexcept {
  return variant == Variant::wgmma ? wgmma_smem_bytes(*this, settings) : simt_smem_bytes(*this, settings);
}

int TypedConfig::registers_needed(const Settings& settings) const noexcept {
  std::int64_t registers = 32;  // for what stands around the tiles
  if (variant == Variant::wgmma) {
    registers += settings.head_dim_v / 2 + tile_kv / 2 + tile_kv / 4;  // outputs, scores, weights
  } else {
    // Outputs, scores, and what they are computed from.
    const std::int64_t queries = tile_q * 16 / threads, keys = tile_kv / 16, groups = slabs(settings.head_dim_v);
    registers += queries * groups * 4 + queries * keys + 4 * std::max(queries + keys, queries + 1);
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
  if (settings.varlen) return "wgmma's copies do not know where a packed sequence ends";
  for (const Side side : {Side::q, Side::k, Side::v, Side::o})
    if (settings.vector(side) < 8)
      return std::string("the copy engine takes rows that start at multiples of 16 bytes; those of ") +
             side_names[static_cast<std::size_t>(side)] + " do not";
  const int limit = config.tile_q == 192 ? 160 : 240;
  if (const int registers = config.registers_needed(settings); registers > limit)
    return "tiles of these sizes take " + std::to_string(registers) + " registers a thread; there are " +
           std::to_string(limit);
  if (config.o_slabs > slabs(settings.head_dim_v))
    return "o_slabs is " + std::to_string(config.o_slabs) + ", but the output has " +
           std::to_string(slabs(settings.head_dim_v)) + " times 64 columns";
  return {};
}

}  // namespace

std::string why_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  const std::string reason = config.variant == Variant::wgmma ? why_wgmma_invalid(config, settings, device)
                                                              : why_simt_invalid(config, settings, device);
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

/// What was fastest on an H200 (bench/RESULTS.md): as many queries as registers allow, two stages, an output staged as a
/// whole where it fits.
TypedConfig default_wgmma(const Settings& settings, const DeviceInfo& device) {
  TypedConfig config;
  config.variant = Variant::wgmma;
  const std::int64_t widest = std::max(settings.head_dim, settings.head_dim_v);
  // A user's text takes registers too, and three warpgroups have none left: they spill.
  config.tile_q = widest <= 64 && !settings.modified() ? 192 : 128;
  while (config.tile_q > 64 && config.tile_q - 64 >= settings.seq_q) config.tile_q -= 64;
  config.tile_kv = widest <= 128 ? 128 : (widest <= 192 ? 96 : 64);
  config.stages = 2;
  config.order = settings.bounded_left() || settings.bounded_right() ? "counter" : "fixed";
  config.o_slabs = static_cast<int>(slabs(settings.head_dim_v));
  while (config.o_slabs > 1 && config.smem_bytes(settings) > device.smem_bytes_per_block) --config.o_slabs;
  while (config.tile_kv > 16 && config.smem_bytes(settings) > device.smem_bytes_per_block) config.tile_kv -= 16;
  return config;
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

void add_wgmma(const Settings& settings, bool full, std::vector<TypedConfig>& space) {
  const std::int64_t widest = std::max(settings.head_dim, settings.head_dim_v);
  const std::vector<int> tiles_kv = widest <= 64    ? std::vector<int>{128, 96, 160, 176, 64}
                                    : widest <= 128 ? std::vector<int>{128, 112, 96, 176, 64}
                                                    : std::vector<int>{64, 80, 96, 48};
  const int slabs_v = static_cast<int>(slabs(settings.head_dim_v));
  const std::size_t some = full ? tiles_kv.size() : 2;
  for (const int tile_q : {192, 128, 64})
    for (std::size_t i = 0; i < some; ++i)
      for (const int stages : full ? std::vector<int>{2, 3, 4} : std::vector<int>{2, 4})
        for (const char* order : {"counter", "fixed"})
          for (const int rescale : full ? std::vector<int>{8, 0} : std::vector<int>{8}) {
            if (tile_q > 64 && tile_q - 64 >= settings.seq_q) continue;  // a warpgroup without queries
            TypedConfig config;
            config.variant = Variant::wgmma;
            config.tile_q = tile_q;
            config.tile_kv = tiles_kv[i];
            config.stages = stages;
            config.order = order;
            config.rescale = rescale;
            for (const int o_slabs : {slabs_v, std::min(slabs_v, 2), 1}) {
              config.o_slabs = o_slabs;
              if (space.empty() || std::ranges::find(space, config) == space.end()) space.push_back(config);
            }
          }
}

}  // namespace

TypedConfig default_config(Variant variant, const Settings& settings, const DeviceInfo& device) {
  return variant == Variant::wgmma ? default_wgmma(settings, device) : default_simt(settings, device);
}

TypedConfig default_config(const Settings& settings, const DeviceInfo& device) {
  if (const TypedConfig config = default_wgmma(settings, device); why_invalid(config, settings, device).empty())
    return config;
  return default_simt(settings, device);
}

Config complete_config(const Config& partial, const Settings& settings, const DeviceInfo& device) {
  const Variant variant =
      partial.fields.contains("variant") ? parse_variant(partial.fields) : default_config(settings, device).variant;
  Config config = default_config(variant, settings, device).to_config();
  for (const auto& [field, value] : partial.fields) config.fields.set(field, value);
  const TypedConfig typed = TypedConfig::parse(config);
  if (const std::string reason = why_invalid(typed, settings, device); !reason.empty())
    throw Error(ErrorCode::invalid_argument, "config '", config.text(), "' cannot be used: ", reason);
  return typed.to_config();
}

std::vector<Config> search_space(const Settings& settings, const DeviceInfo& device, Effort effort) {
  const bool full = effort == Effort::full;
  std::vector<TypedConfig> candidates{default_config(settings, device)};
  const bool tensor_cores = candidates.front().variant == Variant::wgmma;
  if (tensor_cores) add_wgmma(settings, full, candidates);
  // Where tensor cores can be had, nothing else comes near them.
  if (tensor_cores)
    candidates.push_back(default_simt(settings, device));
  else
    add_simt(settings, full, candidates);
  std::vector<Config> space;
  for (const TypedConfig& candidate : candidates) {
    if (!why_invalid(candidate, settings, device).empty()) continue;
    if (Config config = candidate.to_config(); std::ranges::find(space, config) == space.end())
      space.push_back(std::move(config));
  }
  return space;
}

}  // namespace tunesmith::attention
