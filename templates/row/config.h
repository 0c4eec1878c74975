#pragma once
// A configuration of a row kernel, and what it costs. Internal to templates/.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "templates/config_values.h"
#include "templates/row/shape.h"
#include "tunesmith/device_info.h"
#include "tunesmith/problem.h"

namespace tunesmith::row {

enum class Variant : std::uint8_t {
  warp,      ///< lanes of a warp per row, in registers
  block,     ///< block per row, in registers
  hybrid,    ///< block per row, in registers and shared memory
  cluster,   ///< cluster of blocks per row, in registers and shared memory
  grid,      ///< several blocks of a cooperative grid per row, in registers and shared memory
  two_pass,  ///< block per row, two passes
  split,     ///< several blocks per row, two passes in two kernels
  pipeline,  ///< clusters that stay, rows streaming through their shared memory
};
/// How a row waits in registers.
enum class Registers : std::uint8_t { float32, packed };
/// Widest accesses to rows that start between two vectors.
enum class Access : std::uint8_t { vectors, pairs, elements };

}  // namespace tunesmith::row

namespace tunesmith {
template <>
inline constexpr std::array<std::string_view, 8> enum_names<row::Variant>{"warp", "block",    "hybrid", "cluster",
                                                                          "grid", "two_pass", "split",  "pipeline"};
template <>
inline constexpr std::array<std::string_view, 2> enum_names<row::Registers>{"float32", "packed"};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<row::Access>{"vectors", "pairs", "elements"};
}  // namespace tunesmith

namespace tunesmith::row {

/// A variant has only the fields that describe() says.
struct TypedConfig {
  Variant variant = Variant::block;
  int threads = 256;         ///< pipeline: that work; 64 more fill the ring and bring results together
  int lanes = 32;            ///< warp: lanes per row
  int blocks_per_row = 1;    ///< cluster, grid, split, pipeline
  int register_vectors = 4;  ///< hybrid, cluster, grid: vectors of a thread in registers, the rest in shared memory
  int min_blocks = 1;        ///< resident blocks per multiprocessor that bound a thread's registers
  Registers registers = Registers::float32;  ///< block, hybrid, cluster, grid
  int unroll = 4;                            ///< two_pass, split: vectors in flight per thread
  int blocks_per_sm = 0;                     ///< two_pass: blocks in the grid per multiprocessor; 0: one per row
  int stages = 13;                           ///< pipeline: chunks in the ring
  int chunk_bytes = 16384;                   ///< pipeline: of a chunk at most
  int ahead = 0;                             ///< pipeline: rows whose first pass is done before a row's second
  Access access = Access::vectors;           ///< warp, block: how rows are taken that start between two vectors
  LoadHint load = LoadHint::plain;
  LoadHint load_again = LoadHint::plain;  ///< two_pass, split: second pass
  StoreHint store = StoreHint::plain;

  /// Throws Error(invalid_argument) naming the field, its value and what is allowed.
  static TypedConfig parse(const Config& config);
  Config to_config() const;

  /// The shape as this configuration takes it.
  Shape view(Shape shape) const {
    if (access != Access::vectors) shape.widest = access == Access::pairs ? 2 : 1;
    return shape;
  }
  /// Threads that share a row.
  std::int64_t members() const noexcept;
  /// Vectors of a row that one thread holds, of each input.
  std::int64_t vectors_per_thread(const Shape& shape) const noexcept;
  std::int64_t vectors_in_registers(const Shape& shape) const noexcept;
  /// The row waits on the chip between one read and one write.
  bool holds_row() const noexcept { return variant <= Variant::grid; }
  bool bounds_registers() const noexcept {
    return (holds_row() && variant != Variant::warp) || variant == Variant::two_pass || variant == Variant::pipeline;
  }
  bool has_shared_vectors() const noexcept { return holds_row() && variant >= Variant::hybrid; }
  bool reads_twice() const noexcept { return variant == Variant::two_pass || variant == Variant::split; }
  /// Dynamic shared memory of a block.
  std::int64_t smem_bytes(const Shape& shape) const noexcept;
  /// An estimate of the registers a thread needs: the row's part and what the code around it takes.
  int registers_needed(const Shape& shape) const noexcept;
};

inline std::string_view name(Variant variant) noexcept { return enum_name(variant); }
/// Describes the fields of a configuration: the one table of them.
void describe(const TypedConfig& config, Description& description);
/// Every field of every variant, described.
std::vector<FieldInfo> config_field_infos();

/// Empty, or why a well-formed configuration cannot run this shape on this device.
std::string why_invalid(const TypedConfig& config, const Shape& shape, const DeviceInfo& device);

/// The configuration used without measuring: the one of which a small model expects most.
TypedConfig default_config(const Shape& shape, const DeviceInfo& device);
/// The same variant's best guess; well-formed, but not necessarily valid (a row may be too long for the variant).
TypedConfig default_config(Variant variant, const Shape& shape, const DeviceInfo& device);
/// What Op::complete_config and Op::search_space answer.
Config complete_config(const Config& partial, const Shape& shape, const DeviceInfo& device);
std::vector<Config> search_space(const Shape& shape, const DeviceInfo& device, Effort effort);

}  // namespace tunesmith::row
