// Which configurations are worth trying.
//
// The rules of thumb come from measurements on an H200 (bench/RESULTS.md): 64 to 128 bytes a thread in flight; a row in the
// registers of one warp up to 8 vectors a lane; evict_last loads once a tensor is well beyond the L2 cache; several blocks
// per row where rows are fewer than multiprocessors.

#include <algorithm>
#include <set>

#include "templates/row/row_geometry.h"

namespace tunesmith::row {
namespace {

struct Hints {
  const char *load, *load_again, *store;
};

/// The one to expect most of first: what is far larger than the L2 cache is read once, and the policy that keeps it anyway
/// reads fastest; what fits into it need not be kept in L1.
std::vector<Hints> hints_to_try(const Shape& shape, const DeviceInfo& device, Effort effort) {
  const bool has_policies = device.arch.number() >= 80;
  const bool large = shape.traffic_bytes() >= 2 * device.l2_bytes;
  std::vector<Hints> hints{{"plain", "plain", "plain"}};
  if (has_policies) hints.insert(large ? hints.begin() : hints.end(), {"evict_last", "evict_first", "plain"});
  if (!shape.in_place)
    hints.insert(large ? hints.end() : hints.begin(),
                 large ? Hints{"no_allocate", "no_allocate", "streaming"} : Hints{"no_allocate", "no_allocate", "plain"});
  if (effort == Effort::quick) return hints;
  hints.push_back({"plain", "plain", "streaming"});
  if (!shape.in_place)
    hints.push_back(large ? Hints{"no_allocate", "no_allocate", "plain"} : Hints{"no_allocate", "no_allocate", "streaming"});
  if (has_policies) hints.push_back({"evict_last", "evict_first", "evict_first"});
  return hints;
}

/// Every list is in the order of promise.
class Geometries {
 public:
  Geometries(const Shape& shape, const DeviceInfo& device, Effort effort)
      : shape_(shape), device_(device), full_(effort == Effort::full), vectors_(shape.vectors_per_row()) {}

  std::vector<TypedConfig> all() {
    const bool few_rows = shape_.rows < 2 * device_.sm_count;
    const bool shares_rows = few_rows && row_bytes() >= 16 << 10;
    if (shares_rows) grids();
    if (row_bytes() >= (few_rows ? 16 << 10 : 100 << 10)) clusters();
    if (shares_rows && row_bytes() >= 64 << 10) splits();
    if (row_bytes() <= (full_ ? 16 << 10 : 8 << 10)) warps();
    blocks();
    if (row_bytes() >= (full_ ? 24 << 10 : 48 << 10) && (full_ || !shares_rows)) hybrids();
    const bool fits_easily = row_bytes() <= 64 << 10;
    if (full_ || !fits_easily) onlines();
    return std::move(result_);
  }

 private:
  std::int64_t row_bytes() const { return shape_.cols * shape_.waiting_bytes(); }

  void add(const TypedConfig& config) {
    if (why_invalid(config, shape_, device_).empty()) result_.push_back(config);
  }

  void warps() {
    for (int lanes = full_ ? 1 : 2; lanes <= 32; lanes *= 2) {
      const std::int64_t per_lane = (vectors_ + lanes - 1) / lanes * shape_.inputs;
      if (per_lane > (full_ ? 16 : 8) || vectors_ * 2 <= lanes) continue;
      for (const int threads : full_ ? std::vector<int>{64, 128, 256, 512} : std::vector<int>{128}) {
        TypedConfig config;
        config.variant = Variant::warp;
        config.lanes = lanes;
        config.threads = threads;
        add(config);
        narrower(config);
      }
    }
  }

  /// The same in narrower accesses, where that is a choice and a row takes few enough of them.
  void narrower(TypedConfig config) {
    if (!shape_.shifted()) return;
    for (const char* const access : {"elements", "pairs"}) {
      config.access = access;
      const Shape shape = config.view(shape_);
      if (config.vectors_per_thread(shape) * shape.inputs > 64 || shape.vector() > 2) continue;
      if (config.bounds_registers()) bound_registers(config, shape, device_);
      add(config);
    }
  }

  void blocks() {
    for (int threads = 32; threads <= 1024; threads *= 2) {
      const std::int64_t per_thread = (vectors_ + threads - 1) / threads;
      const std::int64_t elements = per_thread * shape_.vector() * shape_.inputs;
      if (vectors_ * 2 <= threads || elements > (full_ ? 128 : 96) || (!full_ && elements < 8)) continue;
      for (const char* const registers : {"float32", "packed"}) {
        if (*registers == 'p' && !may_pack(shape_)) continue;
        if (*registers == 'f' && elements > (full_ ? 128 : 64)) continue;
        if (!full_ && may_pack(shape_) && (*registers == 'p') != (elements > 32)) continue;
        TypedConfig config;
        config.variant = Variant::block;
        config.threads = threads;
        config.registers = registers;
        bound_registers(config, shape_, device_);
        add(config);
        if (*registers == 'f') narrower(config);
        if (full_ && config.min_blocks > 1) {
          config.min_blocks = 1;  // the compiler's own choice of registers
          add(config);
        }
      }
    }
  }

  void hybrids() {
    for (const int threads : {256, 512, 1024})
      for (const int blocks : full_ ? std::vector<int>{2, 3, 4, 1} : std::vector<int>{2, 1}) {
        if (!full_ && blocks == 1 && (threads == 256 || !result_.empty())) continue;
        TypedConfig config;
        config.variant = Variant::hybrid;
        if (!fill_chip(config, threads, blocks, shape_, device_)) continue;
        add(config);
        if (full_) lighter(config);
      }
  }

  void clusters() {
    for (const int blocks : full_ ? std::vector<int>{2, 3, 4, 1} : std::vector<int>{2, 1})
      for (const int size : full_ ? std::vector<int>{2, 4, 8, 16} : std::vector<int>{2, 4, 8})
        for (const int threads : full_ ? std::vector<int>{512, 256, 1024} : std::vector<int>{512, 256}) {
          TypedConfig config;
          config.variant = Variant::cluster;
          config.blocks_per_row = size;
          config.threads = threads;
          if (vectors_ < 2 * config.members()) continue;
          if (!full_ && blocks == 1 && !result_.empty()) continue;
          if (!fill_chip(config, threads, blocks, shape_, device_)) continue;
          add(config);
          if (full_) lighter(config);
        }
  }

  /// The same with fewer vectors in registers: more of the row is copied without the threads' help.
  void lighter(TypedConfig config) {
    const int most = config.register_vectors;
    for (const int held : {most / 2, most / 4}) {
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

  void onlines() {
    for (const int threads : full_ ? std::vector<int>{256, 512, 1024} : std::vector<int>{512, 1024})
      for (const int unroll : full_ ? std::vector<int>{2, 4, 8} : std::vector<int>{4}) {
        if (std::int64_t{threads} * unroll >= 2 * vectors_ || unroll * shape_.inputs > 8) continue;
        TypedConfig config;
        config.variant = Variant::online;
        config.threads = threads;
        config.unroll = unroll;
        add(config);
        if (full_ && row_bytes() >= 128 << 10) {
          config.blocks_per_sm = 1;
          add(config);
        }
      }
  }

  void splits() {
    for (const int threads : full_ ? std::vector<int>{256, 512} : std::vector<int>{256})
      for (const int tiles : full_ ? std::vector<int>{1, 2, 4} : std::vector<int>{1}) {
        TypedConfig config;
        config.variant = Variant::split;
        config.threads = threads;
        config.unroll = 4;
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
  std::vector<Config> space{default_config(shape, device).to_config()};
  std::set<std::string> known{space.front().text()};
  const auto add = [&](const TypedConfig& config) {
    if (!why_invalid(config, shape, device).empty()) return;
    Config candidate = config.to_config();
    if (known.insert(candidate.text()).second) space.push_back(std::move(candidate));
  };
  // Every geometry with the most promising hints first: a budget that ends early has seen all of them.
  const std::vector<TypedConfig> geometries = Geometries(shape, device, effort).all();
  for (const Hints& hints : hints_to_try(shape, device, effort))
    for (TypedConfig config : geometries) {
      config.load = hints.load;
      config.store = hints.store;
      if (config.reads_twice()) config.load_again = hints.load_again;
      add(config);
    }
  return space;
}

}  // namespace tunesmith::row
