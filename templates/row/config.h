#pragma once
// Configuration of a row kernel and its resource use. Internal to templates/.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "templates/config_values.h"
#include "templates/row/schedules/staged.h"
#include "templates/row/shape.h"
#include "tunesmith/device_info.h"
#include "tunesmith/problem.h"

namespace tunesmith::row {

enum class Variant : std::uint8_t {
  warp,        ///< lanes of a warp per row, in registers
  block,       ///< block per row, in registers
  hybrid,      ///< block per row, in registers and shared memory
  cluster,     ///< cluster of blocks per row, in registers and shared memory
  grid,        ///< several blocks of a cooperative grid per row, in registers and shared memory
  two_pass,    ///< block per row, two passes
  split,       ///< several blocks per row, two passes in two kernels
  pipeline,    ///< persistent clusters; rows stream through their shared memory
  persistent,  ///< row programs: persistent blocks or clusters; the next rows are copied to their shared memory
};
/// Format of resident rows in registers.
enum class Registers : std::uint8_t { float32, packed };
/// Widest accesses to rows that are not vector-aligned. staged: the rows of a block pass through shared memory.
enum class Access : std::uint8_t { vectors, pairs, elements, staged };

}  // namespace tunesmith::row

namespace tunesmith {
template <>
inline constexpr std::array<std::string_view, 9> enum_names<row::Variant>{
    "warp", "block", "hybrid", "cluster", "grid", "two_pass", "split", "pipeline", "persistent"};
template <>
inline constexpr std::array<std::string_view, 2> enum_names<row::Registers>{"float32", "packed"};
template <>
inline constexpr std::array<std::string_view, 4> enum_names<row::Access>{"vectors", "pairs", "elements", "staged"};
}  // namespace tunesmith

namespace tunesmith::row {

/// Only the fields that describe() lists for a variant are used.
struct TypedConfig {
  Variant variant = Variant::block;
  int threads = 256;         ///< pipeline: worker threads; producer and finisher are 64 more
  int lanes = 32;            ///< warp: lanes per row
  int blocks_per_row = 1;    ///< cluster, grid, split, pipeline, persistent
  int register_vectors = 4;  ///< hybrid, cluster, grid: vectors per thread in registers; the rest is in shared memory
  int min_blocks = 1;        ///< resident blocks per multiprocessor, which bound the registers per thread
  Registers registers = Registers::float32;  ///< block, hybrid, cluster, grid
  int unroll = 4;                            ///< two_pass, split: vectors in flight per thread
  int blocks_per_sm = 0;                     ///< two_pass: blocks in the grid per multiprocessor; 0: one per row
  int stages = 13;                           ///< pipeline: chunks in the ring; persistent: batches of rows in it
  int chunk_bytes = 16384;                   ///< pipeline: upper bound of a chunk
  int batch = 1;                             ///< persistent: rows that are reduced together
  int keep_columns = 0;                      ///< persistent: 1 if arrays [col] stay in shared memory
  int ahead = 0;                    ///< pipeline: rows whose first pass runs before the second pass of the current row
  Access access = Access::vectors;  ///< warp, block: accesses to rows that are not vector-aligned; staged: warp only
  int rounds = 1;                   ///< access staged: rows that the same lanes take one after another
  LoadHint load = LoadHint::plain;
  LoadHint load_again = LoadHint::plain;  ///< two_pass, split: second pass
  StoreHint store = StoreHint::plain;
  /// Not pipeline: the kernel runs every width of the bucket that ends at this number of columns. 0: exactly
  /// the problem's columns.
  std::int64_t capacity = 0;
  /// block, hybrid, cluster, grid: blocks of a multiprocessor start one after another, each when the one before it would
  /// have loaded its part of a row at this rate. 0: all at once.
  int stagger_bytes_per_ns = 0;
  /// warp, block, hybrid, cluster: a block brings the rows of the one that starts this many blocks of each multiprocessor
  /// later into L2. 0: none.
  int prefetch_blocks = 0;
  int sized_by_row = 0;  ///< hybrid, cluster, grid with a capacity: 1 if a launch has shared memory for its own columns only

  /// Throws Error(invalid_argument) with the field, its value and the allowed values.
  static TypedConfig parse(const Config& config);
  Config to_config() const;
  bool operator==(const TypedConfig&) const = default;

  /// Returns the shape with this configuration's vector width and capacity.
  Shape view(Shape shape) const {
    if (capacity != 0) shape = shape.with_capacity();
    if (access == Access::staged) return staged_view(shape, rows_of_block());
    return access == Access::vectors ? shape : shape.with_vectors_of(access == Access::pairs ? 2 : 1);
  }
  /// Returns the number of rows that a block of variant=warp computes; 1 for others.
  int rows_of_block() const noexcept {
    return variant == Variant::warp ? threads / lanes * (access == Access::staged ? rounds : 1) : 1;
  }
  /// Returns the number of blocks that share a row while it is resident.
  int blocks_of_row() const noexcept { return variant == Variant::cluster || variant == Variant::grid ? blocks_per_row : 1; }
  /// Returns the number of threads that share a row.
  std::int64_t members() const noexcept;
  /// Returns the resident vectors per thread of each input.
  std::int64_t vectors_per_thread(const Shape& shape) const noexcept;
  std::int64_t vectors_in_registers(const Shape& shape) const noexcept;
  /// Returns whether a row is resident on chip between one read and one write.
  bool holds_row() const noexcept { return variant <= Variant::grid || variant == Variant::persistent; }
  /// Returns whether defaults bound the registers of a thread: not of warps, unless the grid is persistent, which has as
  /// many blocks as are resident.
  bool bounds_registers(const Shape& shape) const noexcept { return variant != Variant::warp || shape.cost.sums_rows(); }
  bool staggers() const noexcept { return variant >= Variant::block && variant <= Variant::grid; }
  bool prefetches() const noexcept { return variant <= Variant::cluster; }
  bool has_shared_vectors() const noexcept { return holds_row() && variant >= Variant::hybrid; }
  bool reads_twice() const noexcept { return variant == Variant::two_pass || variant == Variant::split; }
  /// Returns the dynamic shared memory per block: for the widest row, if the shape has a capacity.
  std::int64_t smem_bytes(const Shape& shape) const noexcept;
  /// Returns the dynamic shared memory per block of a launch for rows of `width` columns in the kernel for a shape with a
  /// capacity: without the end of the last staged array, and without slots of vectors beyond the row if it is sized_by_row.
  std::int64_t smem_bytes(const Shape& shape, std::int64_t width) const;
  /// Returns the dynamic shared memory per block of a launch for the problem's own columns.
  std::int64_t launch_smem_bytes(const Shape& shape) const {
    return shape.actual_cols == 0 ? smem_bytes(shape) : smem_bytes(shape, shape.actual_cols);
  }
  /// Estimates the registers per thread: the resident part of the row and the code around it.
  int registers_needed(const Shape& shape) const noexcept;
};

inline std::string_view name(Variant variant) noexcept { return enum_name(variant); }
/// Describes the fields of a configuration; the only table of them.
void describe(const TypedConfig& config, Description& description);
/// Returns the descriptions of all fields of all variants.
std::vector<FieldInfo> config_field_infos();

/// Returns why a well-formed configuration cannot run this shape on this device; empty if it can.
std::string why_invalid(const TypedConfig& config, const Shape& shape, const DeviceInfo& device);

/// Returns the configuration used without tuning: the best one by a small performance model.
TypedConfig default_config(const Shape& shape, const DeviceInfo& device);
/// Returns the best guess of one variant; well-formed, but not necessarily valid (a row may be too long for the variant).
TypedConfig default_config(Variant variant, const Shape& shape, const DeviceInfo& device);
/// Returns the configuration for every width of the bucket, and every number of rows of the bucket, that the shape is in.
TypedConfig capacity_config(const Shape& shape, const DeviceInfo& device);
/// Implement Op::complete_config and Op::search_space.
Config complete_config(const Config& partial, const Shape& shape, const DeviceInfo& device);
std::vector<Config> search_space(const Shape& shape, const DeviceInfo& device, Effort effort);

}  // namespace tunesmith::row
