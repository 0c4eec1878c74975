// The default configuration and the search space of kernels over a strided dimension.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>
#include <set>

#include "templates/config_values.h"
#include "templates/eviction.h"
#include "templates/strided/config.h"
#include "tunesmith/error.h"

namespace tunesmith::strided {
namespace {

/// Sets min_blocks to the number of blocks that registers and threads allow.
void bound_registers(TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  config.min_blocks = std::clamp(device.max_threads_per_sm / config.threads, 1, 32);
  while (config.min_blocks > 1 && !why_invalid(config, shape, device).empty()) --config.min_blocks;
}

/// Returns the share of its time in which a configuration transfers each element for the first time.
double share_of_first_accesses(const TypedConfig& config, const Shape& shape) {
  const bool split = config.variant == Variant::split;
  if (config.variant == Variant::resident) return 1;
  if (config.variant == Variant::cluster) return 0.45;
  if (!shape.is_program) return !shape.writes ? (split ? 0.9 : 0.97) : split ? 0.55 : 0.6;
  const auto input = static_cast<double>(shape.input_bytes()), output = static_cast<double>(shape.output_bytes());
  const double passes = shape.stages + (shape.writes || shape.sums_rows() || shape.stages == 0 ? 1 : 0);
  return (split ? 0.83 : 0.9) * (input + output) / (passes * input + output);
}

/// Returns the share of the bandwidth that accesses of `bytes` neighbouring bytes reach.
double share_of_bandwidth(double bytes) {
  return bytes >= 512 ? 1 : bytes >= 256 ? 0.98 : bytes >= 128 ? 0.95 : bytes >= 64 ? 0.9 : bytes >= 32 ? 0.75 : bytes / 43;
}

/// Returns that share for the accesses of a configuration: lanes access neighbouring positions, and the other threads of a
/// warp neighbouring columns.
double share_of_bandwidth(const TypedConfig& config, const Shape& shape) {
  const auto is_by_columns = [&](const Array& array) {
    return array.col_stride == 1 && shape.cols > 1 && !array.adjacent_positions(shape.inner);
  };
  const auto columns_of_warp = std::min<std::int64_t>(std::max(32 / config.lanes, 1), shape.cols);
  const double positions = static_cast<double>(std::min<std::int64_t>(config.lanes, shape.vectors())) *
                           static_cast<double>(shape.vector() * size_of(shape.input()));
  const bool whole_rows = shape.in[0].col_stride == shape.inner && config.lanes >= shape.inner / shape.vector();
  const double of_positions = whole_rows ? 1 : share_of_bandwidth(positions);
  // Each array takes the time of its bytes.
  double bytes = 0, time = 0;
  const auto add = [&](const Array& array) {
    const auto size = static_cast<double>(size_of(array.dtype));
    bytes += size;
    time += size / (is_by_columns(array) ? share_of_bandwidth(static_cast<double>(columns_of_warp) * size) : of_positions);
  };
  std::for_each_n(shape.in.begin(), shape.inputs, add);
  if (shape.writes) add(shape.out);
  std::for_each_n(shape.more_out.begin(), shape.more_outputs, add);
  return bytes / time;
}

/// Returns how well a configuration uses the device; larger is better. Its choices among the trials of 19 problems take 1.03
/// times as long as the best ones (H200, geometric mean).
///
/// Bandwidth depends on how many neighbouring bytes a warp accesses in a column (a sector has 32, a request up to 128), on
/// the bytes that a multiprocessor has in flight, and on how evenly blocks fill the device. Members cost reductions.
double expectation(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  const double coalesced = share_of_bandwidth(config, shape);
  const double in_flight = static_cast<double>(config.threads) * config.min_blocks *
                           static_cast<double>(config.columns(shape) * shape.vector_bytes());
  const double busy = std::min(1.0, std::sqrt(in_flight / 49152));  // about 48 KB hide the latency of memory
  // Warps hide the latency of the arithmetic.
  const double warps = std::pow(std::min(1.0, config.threads / 32.0 * config.min_blocks / 24), 0.15);
  const double tiles = static_cast<double>(config.tiles(shape) * config.blocks_per_row);
  const double slots = static_cast<double>(device.sm_count) * config.min_blocks;
  const double filled = tiles >= slots ? tiles / (std::ceil(tiles / slots) * slots) : tiles / slots;
  // Blocks of several rounds overlap, so a partial last round costs less than its share.
  const double even = tiles >= 4 * slots ? 1 - (1 - filled) / 2 : filled;
  const double groups = config.lanes < 32 ? config.threads / 32.0 : config.members();
  const double reductions = groups == 1 ? 1 : 1 - 0.002 * std::sqrt(groups) - 0.02;
  const double lone = !config.reads_twice() && config.min_blocks == 1 && tiles > device.sm_count ? 0.85 : 1;
  const auto cols = static_cast<double>(std::max<std::int64_t>(shape.cols, 1));
  const double used = cols / (static_cast<double>(config.members()) * config.blocks_per_row *
                              std::ceil(cols / config.members() / config.blocks_per_row));
  // A tile writes its sums over positions, and the last kernel reads them.
  constexpr double partial_bytes = 8;
  const double tile_bytes = static_cast<double>(std::min<std::int64_t>(config.lanes, shape.vectors()) * shape.vector() *
                                                (shape.input_bytes() + shape.output_bytes()));
  const double elements =
      shape.column_sums == 0 ? 1 : tile_bytes / (std::max(tile_bytes, 1.0) + partial_bytes * shape.column_sums);
  return coalesced * busy * warps * even * reductions * lone * std::sqrt(used) * elements *
         share_of_first_accesses(config, shape);
}

/// Returns the valid geometries of a variant, the best first. `any`: those with more than two threads a column, too.
std::vector<TypedConfig> geometries(Variant variant, const Shape& shape, const DeviceInfo& device, bool any = false) {
  std::vector<TypedConfig> found;
  const auto add = [&](TypedConfig config) {
    bound_registers(config, shape, device);
    if (why_invalid(config, shape, device).empty()) found.push_back(config);
  };
  const std::int64_t enough =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(shape.vectors(), 1))));
  for (int threads = 64; threads <= 1024; threads *= 2)
    for (int lanes = 1; lanes <= threads && lanes <= enough; lanes *= 2) {
      TypedConfig config{.variant = variant, .threads = threads, .lanes = lanes};
      if (!any && config.members() > 2 * shape.cols) continue;
      if (variant == Variant::cluster) {
        for (config.blocks_per_row = 2; config.blocks_per_row <= 16; config.blocks_per_row *= 2)
          if (config.columns(shape) <= 64 && config.columns(shape) > 1) add(config);
        continue;
      }
      if (variant == Variant::resident) {
        if (config.columns(shape) <= 64) add(config);
        continue;
      }
      for (const int unroll : {2, 4, 8}) {
        config.unroll = unroll;
        if (variant == Variant::two_pass) {
          add(config);
          continue;
        }
        const std::int64_t blocks = 2 * device.sm_count / std::max<std::int64_t>(config.tiles(shape), 1);
        const std::int64_t most = shape.cols / (std::int64_t{config.members()} * unroll);
        config.blocks_per_row = static_cast<int>(std::min<std::int64_t>({blocks, most, 1024}));
        if (config.blocks_per_row > 1) add(config);
      }
    }
  std::ranges::stable_sort(found, std::greater(), [&](const TypedConfig& c) { return expectation(c, shape, device); });
  return found;
}

struct Hints {
  LoadHint load, load_again;
  StoreHint store;
};

std::vector<Hints> hints_to_try(const Shape& shape, const DeviceInfo& device) {
  std::vector<Hints> hints{{LoadHint::plain, LoadHint::plain, StoreHint::plain}};
  if (suits_evict_last(shape.traffic_bytes(), device))
    hints.insert(hints.begin(), {LoadHint::evict_last, LoadHint::evict_first, StoreHint::plain});
  if (!shape.in_place) hints.push_back({LoadHint::no_allocate, LoadHint::no_allocate, StoreHint::streaming});
  return hints;
}

TypedConfig with_hints(TypedConfig config, const Hints& hints) {
  config.load = hints.load;
  config.store = hints.store;
  if (config.reads_twice()) config.load_again = hints.load_again;
  return config;
}

TypedConfig best_of(Variant variant, const Shape& shape, const DeviceInfo& device) {
  const std::vector<TypedConfig> found = geometries(variant, shape, device);
  if (!found.empty()) return with_hints(found.front(), hints_to_try(shape, device).front());
  TypedConfig config{.variant = variant};
  if (variant == Variant::cluster || variant == Variant::split) config.blocks_per_row = 2;
  if (!why_invalid(config, shape, device).empty())  // reductions of large programs need smaller blocks
    if (const std::vector<TypedConfig> others = geometries(variant, shape, device, true); !others.empty())
      return with_hints(others.front(), hints_to_try(shape, device).front());
  return config;
}

}  // namespace

TypedConfig default_config(const Shape& shape, const DeviceInfo& device) {
  TypedConfig best = best_of(Variant::two_pass, shape, device);
  for (const Variant variant : {Variant::resident, Variant::cluster, Variant::split}) {
    const TypedConfig other = best_of(variant, shape, device);
    if (!why_invalid(other, shape, device).empty()) continue;
    if (expectation(other, shape, device) > expectation(best, shape, device)) best = other;
  }
  return best;
}

Config complete_config(const Config& partial, const Shape& shape, const DeviceInfo& device) {
  std::optional<Variant> variant;
  if (const Value* named = partial.fields.find("variant")) {
    TypedConfig asked;
    Description([&](Description& d) { describe(asked, d); }).read_known({{"variant", *named}});
    variant = asked.variant;
    // A recorded configuration is complete: without min_blocks, the compiler chooses the registers.
    if (is_complete<TypedConfig>(partial, *variant) && why_invalid(TypedConfig::parse(partial), shape, device).empty())
      return TypedConfig::parse(partial).to_config();
  }
  TypedConfig typed = default_config(shape, device);
  if (variant && *variant != typed.variant) typed = best_of(*variant, shape, device);
  const Config config = with_values(typed.to_config(), partial);
  typed = TypedConfig::parse(config);  // rejects unknown fields and values
  // Pinned threads or lanes must not fail because of a register bound for other threads or lanes.
  if (!partial.fields.contains("min_blocks"))
    while (typed.min_blocks > 1 && !why_invalid(typed, shape, device).empty()) --typed.min_blocks;
  require_usable(config, why_invalid(typed, shape, device));
  return typed.to_config();
}

std::vector<Config> search_space(const Shape& shape, const DeviceInfo& device, Effort effort) {
  const bool full = effort == Effort::full;
  std::vector<Config> space{default_config(shape, device).to_config()};
  std::set<std::string> known{space.front().text()};
  const auto add = [&](const TypedConfig& config) {
    if (!why_invalid(config, shape, device).empty()) return;
    Config candidate = config.to_config();
    if (known.insert(candidate.text()).second) space.push_back(std::move(candidate));
  };
  const std::vector<Hints> hints = hints_to_try(shape, device);
  const std::array variants{std::pair{geometries(Variant::resident, shape, device), full ? 24U : 8U},
                            std::pair{geometries(Variant::cluster, shape, device), full ? 16U : 6U},
                            std::pair{geometries(Variant::two_pass, shape, device), full ? 12U : 3U},
                            std::pair{geometries(Variant::split, shape, device), full ? 8U : 3U}};
  for (std::size_t h = 0; h < hints.size(); ++h)
    for (const auto& [found, most] : variants) {
      const std::size_t count = std::min<std::size_t>(found.size(), h == 0 ? most : most / 2);
      for (std::size_t i = 0; i < count; ++i) {
        add(with_hints(found[i], hints[h]));
        if (!full || found[i].min_blocks == 1) continue;
        TypedConfig free = found[i];
        free.min_blocks = 1;  // the compiler chooses the registers
        add(with_hints(free, hints[h]));
      }
    }
  return space;
}

}  // namespace tunesmith::strided
