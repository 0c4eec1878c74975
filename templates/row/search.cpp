// The search space of row kernels.
//
// Rules from measurements on an H200 (NOTES.md, "Bytes in flight"): 64 to 128 bytes in flight per thread; a row in the
// registers of one warp up to 8 vectors per lane; evict_last loads if a tensor is much larger than L2; several blocks per
// row if there are fewer rows than multiprocessors.

#include <algorithm>
#include <bit>
#include <set>

#include "templates/eviction.h"
#include "templates/row/defaults/defaults.h"
#include "templates/row/defaults/few_rows.h"
#include "templates/row/defaults/geometry.h"
#include "templates/row/defaults/model.h"
#include "templates/row/defaults/small_blocks.h"
#include "templates/row/prefetch.h"
#include "templates/row/schedules/persistent.h"
#include "templates/row/schedules/pipeline.h"
#include "templates/row/stagger.h"

namespace tunesmith::row {
namespace {

constexpr std::int64_t easy_bytes = 64 << 10;  ///< rows up to this size are resident in registers alone

struct Hints {
  LoadHint load, load_again;
  StoreHint store;
};

/// Returns the most promising hints first. Arrays far larger than L2 are read once, and evict_last reads them fastest;
/// arrays that fit into L2 need not be kept in L1.
std::vector<Hints> hints_to_try(const Shape& shape, const DeviceInfo& device, Effort effort) {
  const bool keeps = suits_evict_last(shape.traffic_bytes(), device);
  if (!shape.cost.writes) {
    const bool large = shape.traffic_bytes() >= 4 * device.l2_bytes;
    std::vector<Hints> loads{{LoadHint::streaming, LoadHint::plain, StoreHint::plain},
                             {LoadHint::no_allocate, LoadHint::plain, StoreHint::plain}};
    loads.insert(large ? loads.begin() : loads.end(), {LoadHint::plain, LoadHint::plain, StoreHint::plain});
    if (effort == Effort::quick) return loads;
    if (keeps) loads.push_back({LoadHint::evict_last, LoadHint::plain, StoreHint::plain});
    return loads;
  }
  const bool large = shape.traffic_bytes() >= 2 * device.l2_bytes;
  std::vector<Hints> hints{{LoadHint::plain, LoadHint::plain, StoreHint::plain}};
  if (keeps) hints.insert(hints.begin(), {LoadHint::evict_last, LoadHint::evict_first, StoreHint::plain});
  if (!shape.in_place)
    hints.insert(large ? hints.end() : hints.begin(),
                 large ? Hints{LoadHint::no_allocate, LoadHint::no_allocate, StoreHint::streaming}
                       : Hints{LoadHint::no_allocate, LoadHint::no_allocate, StoreHint::plain});
  if (effort == Effort::quick) return hints;
  hints.push_back({LoadHint::plain, LoadHint::plain, StoreHint::streaming});
  if (!shape.in_place)
    hints.push_back(large ? Hints{LoadHint::no_allocate, LoadHint::no_allocate, StoreHint::plain}
                          : Hints{LoadHint::no_allocate, LoadHint::no_allocate, StoreHint::streaming});
  if (keeps) hints.push_back({LoadHint::evict_last, LoadHint::evict_first, StoreHint::evict_first});
  return hints;
}

/// Every list is sorted by expected performance.
class Geometries {
 public:
  Geometries(const Shape& shape, const DeviceInfo& device, Effort effort)
      : shape_(shape), device_(device), full_(effort == Effort::full), vectors_(shape.vectors_per_row()) {}

  std::vector<TypedConfig> all() {
    const bool few_rows = shape_.rows < 2 * device_.sm_count;
    const bool shares_rows = few_rows && row_bytes(shape_) >= 16 << 10;
    if (row_bytes(shape_) <= (full_ ? 8 << 10 : 6 << 10))
      for (const TypedConfig& config : staged_to_try(shape_, device_, full_)) add(config);
    for (const Access access : {Access::vectors, Access::pairs})
      if (const auto block = column_block(access, shape_, device_)) add(*block);
    for (const TypedConfig& config : small_blocks_to_try(shape_, device_, full_)) add(config);
    if (shape_.few_and_long()) {
      for (const TypedConfig& config : clusters_to_try(shape_, device_, full_)) add(config);
      for (const TypedConfig& config : waves_to_try(shape_, device_, full_)) add(config);
    }
    if (shares_rows) grids();
    if (!shape_.cost.reduces) readers();
    if (shape_.cost.composed && shape_.cost.writes && (shape_.cost.sums_rows() || (full_ && row_bytes(shape_) >= 16 << 10)))
      for (const TypedConfig& config : persistents_to_try(shape_, device_, full_)) add(config);
    if (!shape_.cost.writes) {  // one read in every variant: shared memory gains nothing
      for (const TypedConfig& config : sums_to_try(shape_, device_)) add(config);
      if (row_bytes(shape_) >= 4 << 10) readers();
      if (shares_rows || row_bytes(shape_) > 64 << 10) splits();
      if (row_bytes(shape_) <= 8 << 10) warps();
      if (row_bytes(shape_) <= 128 << 10) blocks();
      return std::move(result_);
    }
    for (const TypedConfig& config : gradients_to_try(shape_, device_)) add(config);
    if (may_stream(shape_, device_))
      for (const TypedConfig& config : pipelines_to_try(shape_, device_, full_)) add(config);
    if (!few_rows && row_bytes(shape_) >= 48 << 10) hybrids();
    if (row_bytes(shape_) >= (few_rows ? 16 << 10 : 100 << 10)) clusters();
    if (shares_rows && row_bytes(shape_) >= 64 << 10) splits();
    if (row_bytes(shape_) <= (full_ ? 16 << 10 : 8 << 10)) warps();
    blocks();
    if ((full_ || !shape_.cost.reduces) && row_bytes(shape_) >= 24 << 10 && (few_rows || row_bytes(shape_) < 48 << 10))
      hybrids();
    if (full_ || !fits_easily()) two_passes();
    return std::move(result_);
  }

 private:
  struct Tile {
    int threads, unroll;
  };

  bool fits_easily() const { return row_bytes(shape_) <= easy_bytes; }

  void add(TypedConfig config) {
    bound_persistent_warps(config, shape_, device_);
    if (why_invalid(config, shape_, device_).empty()) result_.push_back(config);
  }

  void warps() {
    for (const int threads : full_ ? std::vector<int>{64, 128, 256, 512} : std::vector<int>{128})
      for (const TypedConfig& config : ranked_warps(threads, full_ ? 16 : 8, shape_, device_)) {
        if (vectors_ * 2 <= config.lanes || (!full_ && config.lanes == 1)) continue;
        add(config);
        narrower(config);
      }
  }

  /// Adds the configuration with narrower accesses, if allowed and if a row needs few of them.
  void narrower(TypedConfig config) {
    if (!shape_.shifted()) return;
    for (const Access access : {Access::elements, Access::pairs}) {
      config.access = access;
      const Shape shape = config.view(shape_);
      if (config.vectors_per_thread(shape) * shape.inputs > 64 || shape.vector() > 2) continue;
      if (config.bounds_registers(shape_)) bound_registers(config, shape, device_);
      add(config);
    }
  }

  /// Adds powers of two, and the best other thread counts with almost no idle lanes.
  void blocks() {
    int others = full_ ? 4 : 1;
    int most = full_ || fits_easily() ? 64 : 3;  // long rows take long to compile
    for (const TypedConfig& config : ranked_blocks(shape_, device_)) {
      const std::int64_t elements =
          config.vectors_per_thread(shape_) * shape_.vector() * shape_.inputs * shape_.words_of_value();
      const bool packed = config.registers == Registers::packed;
      if (vectors_ * 2 <= config.threads || elements > (full_ ? 128 : 96) || (!full_ && elements < 8)) continue;
      if (!full_ && !packed && elements > 64) continue;
      // A kernel that only reads gains from a second resident row as soon as packing makes room for it. Stages of a program
      // convert packed values again.
      const bool converts_once = shape_.cost.composed && shape_.cost.stages > 1 && !packed;
      if (!full_ && may_pack(shape_) && !converts_once && packed != (elements > (shape_.cost.writes ? 32 : 31))) continue;
      const bool power_of_two = std::has_single_bit(static_cast<unsigned>(config.threads));
      if (!power_of_two && (expectation(config, shape_, device_).lane_use < 0.97 || others-- <= 0)) continue;
      if (most-- <= 0) return;
      add(config);
      if (!power_of_two) continue;
      if (!packed) narrower(config);
      if (full_ && config.min_blocks > 1) {
        TypedConfig free = config;
        free.min_blocks = 1;  // the compiler chooses the registers
        add(free);
      }
    }
  }

  void hybrids() {
    for (const int blocks : full_ ? std::vector<int>{2, 3, 4, 1} : std::vector<int>{2, 1})
      for (const int threads : full_ ? std::vector<int>{512, 384, 256, 1024} : std::vector<int>{512, 256}) {
        if (!full_ && blocks == 1 && !result_.empty()) continue;
        TypedConfig config;
        config.variant = Variant::hybrid;
        if (!fill_chip(config, threads, blocks, shape_, device_)) continue;
        add(config);
        if (blocks == 2) lighter(config);
      }
  }

  /// Adds the smallest clusters that hold a row, and a few larger ones.
  void clusters() {
    for (const int blocks : {2, 3, 1}) {
      int sizes = !full_ ? 1 : blocks == 2 ? 4 : 2;
      if (!full_ && blocks == 1 && !result_.empty()) return;
      for (const int size : full_ ? std::vector<int>{2, 3, 4, 5, 6, 8, 16} : std::vector<int>{2, 4, 8}) {
        const std::size_t before = result_.size();
        for (const int threads : full_ ? std::vector<int>{512, 384, 256, 1024} : std::vector<int>{512, 256}) {
          if (blocks == 3 && threads > 384) continue;
          TypedConfig config;
          config.variant = Variant::cluster;
          config.blocks_per_row = size;
          config.threads = threads;
          if (vectors_ < 2 * config.members() || !fill_chip(config, threads, blocks, shape_, device_)) continue;
          add(config);
          if (blocks == 2) lighter(config);
        }
        if (result_.size() > before && --sizes == 0) break;
      }
    }
  }

  /// Adds the configuration with fewer vectors in registers: more of the row is copied asynchronously. 16-bit elements that
  /// are not packed keep their exponentials, if these are used again.
  void lighter(TypedConfig config) {
    const int most = config.register_vectors;
    if (config.registers == Registers::packed) {
      TypedConfig converted = config;
      converted.registers = Registers::float32;
      for (converted.register_vectors = most; converted.register_vectors > 1; converted.register_vectors /= 2)
        if (why_invalid(converted, shape_, device_).empty()) {
          add(converted);
          break;
        }
    }
    if (!full_ && config.registers == Registers::packed) return;
    for (const int held : full_ ? std::vector<int>{most / 2, most / 4} : std::vector<int>{most / 2}) {
      if (held == config.register_vectors) continue;
      config.register_vectors = held;
      add(config);
    }
  }

  void grids() {
    for (const int threads : full_ ? std::vector<int>{128, 256, 512, 1024} : std::vector<int>{256, 512})
      for (const int vectors : full_ ? std::vector<int>{2, 4, 8, 16} : std::vector<int>{4, 8}) {
        TypedConfig config;
        config.variant = Variant::grid;
        if (share_row(config, threads, vectors, shape_, device_)) add(config);
      }
  }

  void two_passes() {
    for (const int threads : full_ ? std::vector<int>{512, 1024, 256} : std::vector<int>{512, 1024})
      for (const int unroll : full_ ? std::vector<int>{2, 4, 8} : std::vector<int>{4}) {
        if (std::int64_t{threads} * unroll >= 2 * vectors_ || unroll * shape_.inputs > 8) continue;
        TypedConfig config;
        config.variant = Variant::two_pass;
        config.threads = threads;
        config.unroll = unroll;
        add(config);
        if (full_ && row_bytes(shape_) >= 128 << 10) {
          config.blocks_per_sm = 1;
          add(config);
        }
      }
  }

  /// Adds blocks that read a row once, with as many resident blocks as a tile's registers allow.
  void readers() {
    std::vector<Tile> tiles;
    if (full_) {
      for (const int threads : {512, 256, 1024, 128})
        for (const int unroll : {4, 2, 8, 1}) tiles.push_back({threads, unroll});
    } else if (shape_.rows < 2 * device_.sm_count) {
      tiles = {{1024, 8}, {512, 4}, {1024, 4}, {512, 8}, {256, 8}};
    } else if (size_of(shape_.input) >= 4) {
      tiles = {{512, 4}, {512, 2}, {1024, 4}, {256, 4}, {256, 8}};
    } else {
      tiles = {{256, 4}, {512, 2}, {512, 4}, {128, 8}, {1024, 2}};
    }
    for (const Tile& tile : tiles) {
      if (std::int64_t{tile.threads} * tile.unroll >= 2 * vectors_) continue;
      TypedConfig config;
      config.variant = Variant::two_pass;
      config.threads = tile.threads;
      config.unroll = tile.unroll;
      bound_registers(config, shape_, device_);
      add(config);
      if (!full_ || config.min_blocks == 1) continue;
      config.min_blocks = 1;  // the compiler chooses the registers
      add(config);
    }
  }

  void splits() {
    struct Part {
      int threads, unroll, min_blocks, max_tiles;  ///< max_tiles: of a block, unless effort is full
    };
    std::vector<Part> parts{{128, 4, 1, 1}, {128, 8, 1, 1}, {256, 4, 1, 1}};
    if (!shape_.cost.writes)
      parts = {{128, 4, 10, 2}, {128, 8, 6, 1}, {128, 4, 1, 1}, {128, 8, 1, 1}, {256, 4, 4, 1}, {256, 4, 1, 1}};
    if (full_) parts.push_back({512, 4, 1, 1});
    for (const Part& part : parts)
      for (int tiles = 1; tiles <= (full_ ? 4 : part.max_tiles); tiles *= 2) {
        TypedConfig config;
        config.variant = Variant::split;
        config.threads = part.threads;
        config.unroll = part.unroll;
        config.min_blocks = part.min_blocks;
        config.blocks_per_row = parts_of(tiles, config, shape_);
        if (config.blocks_per_row > 1) add(config);
      }
  }

  const Shape& shape_;
  const DeviceInfo& device_;
  const bool full_;
  const std::int64_t vectors_;
  std::vector<TypedConfig> result_;
};

}  // namespace

std::vector<Config> search_space(const Shape& shape, const DeviceInfo& device, Effort effort) {
  const TypedConfig usual = default_config(shape, device);
  TypedConfig staggered = usual, prefetching = usual;
  staggered.stagger_bytes_per_ns = usual.stagger_bytes_per_ns == 0 ? full_stagger(usual, shape, device) : 0;
  prefetching.prefetch_blocks = usual.prefetch_blocks == 0 ? full_prefetch(usual, shape, device) : 0;
  std::vector<Config> space;
  std::set<std::string> known;
  for (const TypedConfig& config : {usual, staggered, prefetching})
    if (known.insert(config.to_config().text()).second) space.push_back(config.to_config());
  // All geometries with the most promising hints come first, so a small budget covers all of them. Hints that seldom win are
  // tried with the best geometries only.
  const auto add = [&](Effort part, std::size_t most) {
    const bool full = part == Effort::full;
    const std::vector<TypedConfig> geometries = Geometries(shape, device, part).all();
    const std::vector<Hints> hints = hints_to_try(shape, device, part);
    for (std::size_t h = 0; h < hints.size(); ++h) {
      const bool common = h < (full ? 3 : 2);
      const std::size_t count = common ? geometries.size() : std::min<std::size_t>(geometries.size(), full ? 8 : 3);
      for (std::size_t g = 0; g < count; ++g) {
        TypedConfig config = geometries[g];
        if (config.variant == Variant::pipeline && !full && h > 0) continue;  // other hints never won
        if (config.variant == Variant::persistent && h > 0) continue;         // its copies have no hints
        if (config.variant != Variant::persistent) {
          config.load = hints[h].load;
          config.store = hints[h].store;
        }
        config.stagger_bytes_per_ns = default_stagger(config, shape, device);
        config.prefetch_blocks = default_prefetch(config, shape, device);
        if (config.reads_twice()) config.load_again = hints[h].load_again;
        Config candidate = config.to_config();
        if (space.size() < most && why_invalid(config, shape, device).empty() && known.insert(candidate.text()).second)
          space.push_back(std::move(candidate));
      }
    }
  };
  // Long rows take long to compile.
  add(Effort::quick, row_bytes(shape) > easy_bytes ? 14 : 24);
  if (effort == Effort::full) add(Effort::full, 220);
  return space;
}

}  // namespace tunesmith::row
