#include "templates/attention/attention_config.h"

#include <algorithm>

#include "tunesmith/error.h"

namespace tunesmith::attention {
namespace {

const Words variant_words{"simt"};

}  // namespace

std::string_view name(Variant variant) noexcept { return variant_words[static_cast<std::size_t>(variant)]; }

Variant parse_variant(const Fields& fields) {
  const std::string word = word_of(fields, "variant", variant_words);
  return static_cast<Variant>(std::ranges::find(variant_words, std::string_view(word)) - variant_words.begin());
}

Words fields_of(Variant variant) {
  switch (variant) {
    case Variant::simt: return {"variant", "threads", "tile_q", "tile_kv"};
  }
  return {};
}

std::vector<FieldInfo> config_field_infos() {
  return {{"variant", "the kernel: without tensor cores", "", variant_words},
          {"threads", "threads per block, a power of two from 32 to 512", "", {}},
          {"tile_q", "queries of a block, a power of two from 16 to 256", "", {}},
          {"tile_kv", "keys of a tile, a multiple of 16 up to 256", "", {}}};
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
    if (field == "tile_q") typed.tile_q = power_of_two_of(fields, field, 16, 256);
    if (field == "tile_kv") typed.tile_kv = integer_of(fields, field, 16, 256, 16);
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
  }
  return config;
}

std::int64_t TypedConfig::smem_bytes(const Settings& settings) const noexcept {
  // As SimtTiles in attention_simt.cuh lays it out; the generated source asserts the size.
  constexpr std::int64_t pad = 4;
  const std::int64_t q = tile_q * (settings.head_dim + pad);
  const std::int64_t kv = tile_kv * (std::max(settings.head_dim, settings.head_dim_v) + pad);
  return (q + kv + tile_q * (tile_kv + pad)) * 4;
}

int TypedConfig::registers_needed(const Settings& settings) const noexcept {
  const std::int64_t queries = tile_q * 16 / threads, keys = tile_kv / 16, groups = (settings.head_dim_v + 63) / 64;
  // Outputs, scores, what they are computed from, and what stands around them.
  return static_cast<int>(queries * groups * 4 + queries * keys + 4 * std::max(queries + keys, queries + 1) + 40);
}

std::string why_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  if (config.threads > device.max_threads_per_block)
    return "threads is " + std::to_string(config.threads) + "; the device allows " +
           std::to_string(device.max_threads_per_block);
  if (config.tile_q % (config.threads / 16) != 0)
    return "tile_q is " + std::to_string(config.tile_q) + ", but threads / 16 = " + std::to_string(config.threads / 16) +
           " threads share its queries; it must be a multiple";
  if (const std::int64_t bytes = config.smem_bytes(settings); bytes > device.smem_bytes_per_block)
    return "tiles of these sizes take " + std::to_string(bytes) + " bytes of shared memory; a block has " +
           std::to_string(device.smem_bytes_per_block);
  if (const int registers = config.registers_needed(settings); registers > 255)
    return "tiles of these sizes take " + std::to_string(registers) + " registers a thread; there are 255";
  if (config.threads * config.registers_needed(settings) > device.registers_per_sm)
    return "tiles of these sizes do not fit into the registers";
  return {};
}

TypedConfig default_config(Variant variant, const Settings& settings, const DeviceInfo& device) {
  TypedConfig config;
  config.variant = variant;
  // The largest square tile of which two blocks share a multiprocessor, but no larger than the queries.
  const std::int64_t half = std::min(device.smem_bytes_per_block, device.smem_bytes_per_sm / 2 - 1024);
  while (config.tile_q > 16 && config.tile_q / 2 >= settings.seq_q) config.tile_q /= 2;
  while (config.tile_kv > 16 && (config.smem_bytes(settings) > half)) {
    if (config.tile_q > config.tile_kv || config.tile_kv <= 32)
      config.tile_q = std::max(16, config.tile_q / 2);
    else
      config.tile_kv /= 2;
    if (config.tile_q == 16 && config.tile_kv <= 32) break;
  }
  // Four queries and four keys to a thread.
  config.threads = std::clamp(config.tile_q * 4, 64, 256);
  return config;
}

TypedConfig default_config(const Settings& settings, const DeviceInfo& device) {
  return default_config(Variant::simt, settings, device);
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
  std::vector<Config> space{default_config(settings, device).to_config()};
  const bool full = effort == Effort::full;
  for (const int tile_q : full ? std::vector<int>{64, 128, 32, 16} : std::vector<int>{64, 32, 128})
    for (const int tile_kv : full ? std::vector<int>{64, 32, 48, 16} : std::vector<int>{64, 32})
      for (const int threads : full ? std::vector<int>{256, 128, 64} : std::vector<int>{256, 128}) {
        TypedConfig config;
        config.tile_q = tile_q;
        config.tile_kv = tile_kv;
        config.threads = threads;
        const bool mostly_idle = tile_q >= 2 * settings.seq_q && tile_q > 16;
        if (mostly_idle || !why_invalid(config, settings, device).empty()) continue;
        if (Config candidate = config.to_config(); std::ranges::find(space, candidate) == space.end())
          space.push_back(std::move(candidate));
      }
  return space;
}

}  // namespace tunesmith::attention
