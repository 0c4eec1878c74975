#include "templates/cross_entropy/config.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>

#include "templates/eviction.h"
#include "tunesmith/error.h"

namespace tunesmith::cross_entropy {

void describe(const TileConfig& c, Description& d) {
  d.field("variant", c.variant, {.meaning = "the kernel; there is one", .required = true});
  d.field("threads", c.threads, {.meaning = "threads per block", .range = {32, 1024}, .step = 32, .required = true});
  d.field("unroll", c.unroll, {.meaning = "vectors that a thread has in flight", .range = {1, 8}, .required = true});
  d.field("load", c.load, {.meaning = "cache hint of the loads", .required = true});
  d.field("store", c.store, {.meaning = "cache hint of the stores", .required = true});
}

std::vector<FieldInfo> tile_config_fields() { return config_infos<TileConfig>(); }
TileConfig TileConfig::parse(const Config& config) { return read_config<TileConfig>(config.fields); }

CombineConfig CombineConfig::parse(const Config& config) {
  const Config only = CombineConfig().to_config();
  if (config != only) throw Error(ErrorCode::invalid_argument, "the one configuration there is: ", only.text());
  return {};
}
Config CombineConfig::to_config() const { return {{{"variant", std::string("rows")}, {"threads", std::int64_t{threads}}}}; }

Config LossConfig::to_config() const {
  return std::visit([](const auto& config) { return config.to_config(); }, kind);
}
Config TileConfig::to_config() const { return {config_fields(*this)}; }

std::int64_t TileConfig::blocks_per_row(const row::Shape& shape) const noexcept {
  const std::int64_t tile = std::int64_t{threads} * unroll;
  return (shape.vectors_per_row() + tile - 1) / tile;
}

std::string why_invalid(const TileConfig& config, const row::Shape& shape, const DeviceInfo& device) {
  if (std::string reason = why_too_many(config.threads, device); !reason.empty()) return reason;
  if (device.arch.number() < 80 && (is_eviction(config.load) || is_eviction(config.store)))
    return "eviction policies need sm_80 or later; the device is " + name(device.arch);
  if (shape.in_place && config.load == LoadHint::no_allocate)
    return "load no_allocate reads through the read-only path, which in_place=1 rules out";
  if (config.threads * (config.unroll * shape.vector() + 40) * shape.words_of_value() > device.registers_per_sm)
    return "threads is " + std::to_string(config.threads) + " and unroll is " + std::to_string(config.unroll) +
           "; together they exceed the registers of a multiprocessor";
  return {};
}

namespace {

/// Returns the share of a row's tiles that lies within the row; the rest occupies a multiprocessor without work.
double filled(const TileConfig& config, const row::Shape& shape) {
  return static_cast<double>(shape.vectors_per_row()) /
         static_cast<double>(config.blocks_per_row(shape) * config.threads * config.unroll);
}

/// Returns tiles of about the fastest size for full tiles, first the tiles that rows fill best; among equals, the one
/// nearest to that size.
std::vector<TileConfig> well_filled(const row::Shape& shape) {
  constexpr int usual = 512, usual_threads = 128;
  constexpr double alike = 0.005;
  std::vector<TileConfig> tiles;
  for (int threads = 64; threads <= 256; threads += 32)
    for (int unroll = 3; unroll <= 5; ++unroll) {
      TileConfig config;
      config.threads = threads;
      config.unroll = unroll;
      if (2 * threads * unroll >= usual && threads * unroll <= 2 * usual && threads * unroll <= shape.vectors_per_row())
        tiles.push_back(config);
    }
  std::ranges::stable_sort(tiles, {}, [&](const TileConfig& config) {
    return std::tuple(-std::round(filled(config, shape) / alike), std::abs(config.threads * config.unroll - usual),
                      std::abs(config.threads - usual_threads));
  });
  return tiles;
}

}  // namespace

TileConfig default_tile_config(const row::Shape& shape, const DeviceInfo& device) {
  TileConfig config;
  if (const std::vector<TileConfig> tiles = well_filled(shape); !tiles.empty()) {
    config = tiles.front();
  } else {
    config.threads = 128;
    while (config.threads > 32 && config.threads / 2 >= shape.vectors_per_row()) config.threads /= 2;
    config.unroll = 4;
    while (config.unroll > 1 && config.threads * config.unroll / 2 >= shape.vectors_per_row()) config.unroll /= 2;
  }
  if (suits_evict_last(shape.traffic_bytes(), device)) config.load = LoadHint::evict_last;
  return config;
}

Config complete_tile_config(const Config& partial, const row::Shape& shape, const DeviceInfo& device) {
  const Config config = with_values(default_tile_config(shape, device).to_config(), partial);
  const TileConfig typed = TileConfig::parse(config);
  require_usable(config, why_invalid(typed, shape, device));
  return typed.to_config();
}

std::vector<Config> tile_search_space(const row::Shape& shape, const DeviceInfo& device, Effort effort) {
  std::vector<Config> space{default_tile_config(shape, device).to_config()};
  const bool full = effort == Effort::full;
  std::vector<TileConfig> tiles = well_filled(shape);
  tiles.resize(std::min<std::size_t>(tiles.size(), full ? 8 : 3));
  for (const int threads : full ? std::vector<int>{128, 64, 256, 512, 1024, 32} : std::vector<int>{128, 64, 256})
    for (const int unroll : full ? std::vector<int>{4, 2, 1, 8} : std::vector<int>{4, 2}) {
      TileConfig config;
      config.threads = threads;
      config.unroll = unroll;
      const bool mostly_idle = threads * unroll >= 2 * shape.vectors_per_row() && threads * unroll > 32;
      if (!mostly_idle) tiles.push_back(config);
    }
  const bool keeps = suits_evict_last(shape.traffic_bytes(), device);
  using Hints = std::vector<std::pair<LoadHint, StoreHint>>;
  const Hints quick_hints{{LoadHint::evict_last, StoreHint::plain}, {LoadHint::plain, StoreHint::plain}};
  const Hints full_hints{{LoadHint::evict_last, StoreHint::plain},      {LoadHint::plain, StoreHint::plain},
                         {LoadHint::no_allocate, StoreHint::plain},     {LoadHint::plain, StoreHint::streaming},
                         {LoadHint::streaming, StoreHint::streaming},   {LoadHint::no_allocate, StoreHint::streaming},
                         {LoadHint::evict_last, StoreHint::evict_first}};
  for (const auto& [load, store] : full ? full_hints : quick_hints)
    for (TileConfig config : tiles) {
      config.load = load;
      config.store = store;
      if (!why_invalid(config, shape, device).empty() || (load == LoadHint::evict_last && !keeps)) continue;
      if (Config candidate = config.to_config(); std::ranges::find(space, candidate) == space.end())
        space.push_back(std::move(candidate));
    }
  return space;
}

}  // namespace tunesmith::cross_entropy
