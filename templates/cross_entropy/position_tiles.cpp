#include "templates/cross_entropy/position_tiles.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "templates/eviction.h"
#include "templates/folded_grid.h"
#include "tunesmith/error.h"

namespace tunesmith::cross_entropy {

void describe(const PositionTiles& c, Description& d) {
  d.field("variant", c.variant, {.meaning = "the kernel; there is one", .required = true});
  d.field("threads", c.threads,
          {.meaning = "threads per block", .range = {32, 1024}, .power_of_two = true, .required = true});
  d.field("lanes", c.lanes,
          {.meaning = "threads that process neighbouring positions; the others share their columns",
           .range = {1, 1024},
           .power_of_two = true,
           .required = true});
  d.field("unroll", c.unroll, {.meaning = "columns of a thread", .range = {1, 32}, .required = true});
  d.field("load", c.load, {.meaning = "cache hint of the loads", .required = true});
  d.field("store", c.store, {.meaning = "cache hint of the stores", .required = true});
}

PositionTiles PositionTiles::parse(const Config& config) { return read_config<PositionTiles>(config.fields); }
Config PositionTiles::to_config() const { return {config_fields(*this)}; }
Config StridedLossConfig::to_config() const {
  return std::visit([](const auto& config) { return config.to_config(); }, kind);
}

strided::TypedConfig PositionTiles::as_slices(const strided::Shape& shape) const {
  strided::TypedConfig slices;
  slices.variant = strided::Variant::split;
  slices.threads = threads;
  slices.lanes = lanes;
  slices.unroll = unroll;
  const std::int64_t of_block = slices.members() * std::int64_t{unroll};
  slices.blocks_per_row = static_cast<int>((shape.cols + of_block - 1) / of_block);
  slices.load = slices.load_again = load;
  slices.store = store;
  return slices;
}

std::vector<KernelLaunch> PositionTiles::launches(const strided::Shape& shape, const std::string& entry) const {
  if (shape.rows == 0) return {};
  const strided::TypedConfig slices = as_slices(shape);
  KernelLaunch launch;
  launch.entry = entry;
  launch.grid = folded_grid(slices.tiles(shape) * slices.blocks_per_row);
  launch.block = {static_cast<std::uint32_t>(threads), 1, 1};
  return {launch};
}

std::string why_invalid(const PositionTiles& config, const strided::Shape& shape, const DeviceInfo& device) {
  if (std::string reason = why_too_many(config.threads, device); !reason.empty()) return reason;
  if (config.lanes > config.threads)
    return "lanes is " + std::to_string(config.lanes) + "; a block has " + std::to_string(config.threads) + " threads";
  if (device.arch.number() < 80 && (is_eviction(config.load) || is_eviction(config.store)))
    return "eviction policies need sm_80 or later; the device is " + name(device.arch);
  if (shape.in_place && config.load == LoadHint::no_allocate)
    return "load no_allocate reads through the read-only path, which in_place=1 rules out";
  const std::int64_t words = (shape.vector() * size_of(shape.input()) + 3) / 4;
  const std::int64_t needed = config.unroll * words + 40 +
                              std::int64_t{shape.vector()} * (8 + shape.more_registers / 2) * (shape.wide() ? 2 : 1) +
                              (shape.wide() ? 20 : 0);
  const int available = std::min(255, device.registers_per_sm / config.threads);
  if (needed > available)
    return "unroll is " + std::to_string(config.unroll) + " and threads is " + std::to_string(config.threads) +
           "; together they need about " + std::to_string(needed) + " registers a thread, there are " +
           std::to_string(available);
  return {};
}

namespace {

/// Returns how well a configuration uses the device; larger is better. The arithmetic of a position is shared by the columns
/// of its thread, columns beyond the last occupy threads without work, and few lanes access parts of cache lines.
double expectation(const PositionTiles& config, const strided::Shape& shape, const DeviceInfo& device) {
  const strided::TypedConfig slices = config.as_slices(shape);
  const double read = static_cast<double>(slices.members()) * slices.blocks_per_row * config.unroll;
  const double busy = static_cast<double>(shape.cols) / read;
  const double segment = static_cast<double>(std::min<std::int64_t>(config.lanes, shape.vectors())) *
                         static_cast<double>(shape.vector() * size_of(shape.input()));
  const double coalesced = std::min(1.0, 0.7 + 0.3 * segment / 256) * std::min(1.0, segment / 32);
  const double tiles = static_cast<double>(slices.tiles(shape) * slices.blocks_per_row);
  const double filled = std::min(1.0, tiles * config.threads / (512.0 * device.sm_count));
  const double lanes_busy = static_cast<double>(shape.vectors()) / (static_cast<double>(slices.tiles(shape)) * config.lanes);
  return busy * coalesced * filled * std::sqrt(lanes_busy) * config.unroll / (config.unroll + 1.5) *
         (config.threads == 256 ? 1 : 0.99);
}

std::vector<PositionTiles> ordered(const strided::Shape& shape, const DeviceInfo& device) {
  std::vector<PositionTiles> found;
  const auto enough =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(shape.vectors(), 1))));
  for (const int threads : {256, 128, 512, 64})
    for (int lanes = threads; lanes >= 1; lanes /= 2)
      for (const int unroll : {8, 4, 16, 2, 1}) {
        PositionTiles config;
        config.threads = threads;
        config.lanes = lanes;
        config.unroll = unroll;
        if ((lanes <= enough || lanes == 1) && why_invalid(config, shape, device).empty()) found.push_back(config);
      }
  std::ranges::stable_sort(found, std::greater(),
                           [&](const PositionTiles& config) { return expectation(config, shape, device); });
  return found;
}

}  // namespace

PositionTiles default_position_tiles(const strided::Shape& shape, const DeviceInfo& device) {
  const std::vector<PositionTiles> found = ordered(shape, device);
  PositionTiles config = found.empty() ? PositionTiles{.unroll = 1} : found.front();
  if (suits_evict_last(shape.traffic_bytes(), device)) config.load = LoadHint::evict_last;
  return config;
}

Config complete_position_tiles(const Config& partial, const strided::Shape& shape, const DeviceInfo& device) {
  PositionTiles typed = PositionTiles::parse(with_values(default_position_tiles(shape, device).to_config(), partial));
  // Pinned threads must not fail because of the other defaults.
  if (!partial.fields.contains("lanes")) typed.lanes = std::min(typed.lanes, typed.threads);
  if (!partial.fields.contains("unroll"))
    while (typed.unroll > 1 && !why_invalid(typed, shape, device).empty()) typed.unroll /= 2;
  Config config = typed.to_config();
  require_usable(config, why_invalid(typed, shape, device));
  return config;
}

std::vector<Config> position_tiles_space(const strided::Shape& shape, const DeviceInfo& device, Effort effort) {
  std::vector<Config> space{default_position_tiles(shape, device).to_config()};
  std::vector<PositionTiles> tiles = ordered(shape, device);
  tiles.resize(std::min<std::size_t>(tiles.size(), effort == Effort::full ? 24 : 8));
  const bool keeps = suits_evict_last(shape.traffic_bytes(), device);
  using Hints = std::vector<std::pair<LoadHint, StoreHint>>;
  const Hints quick_hints{{LoadHint::evict_last, StoreHint::plain}, {LoadHint::plain, StoreHint::plain}};
  const Hints full_hints{{LoadHint::evict_last, StoreHint::plain},
                         {LoadHint::plain, StoreHint::plain},
                         {LoadHint::no_allocate, StoreHint::streaming},
                         {LoadHint::evict_last, StoreHint::evict_first}};
  for (const auto& [load, store] : effort == Effort::full ? full_hints : quick_hints)
    for (PositionTiles config : tiles) {
      config.load = load;
      config.store = store;
      if (!why_invalid(config, shape, device).empty() || (load == LoadHint::evict_last && !keeps)) continue;
      if (Config candidate = config.to_config(); std::ranges::find(space, candidate) == space.end())
        space.push_back(std::move(candidate));
    }
  return space;
}

}  // namespace tunesmith::cross_entropy
