#pragma once
// A configuration of a row kernel as plain numbers and words, and what it costs. Internal to templates/.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
  online,    ///< block per row, two passes
  split,     ///< several blocks per row, two passes in two kernels
  pipeline,  ///< clusters that stay, rows streaming through their shared memory
};

/// Words as they stand in a configuration; a variant has only the fields that fields_of() lists.
struct TypedConfig {
  Variant variant = Variant::block;
  int threads = 256;                  ///< pipeline: that work; 64 more fill the ring and bring results together
  int lanes = 32;                     ///< warp: lanes per row
  int blocks_per_row = 1;             ///< cluster, grid, split, pipeline
  int register_vectors = 4;           ///< hybrid, cluster, grid: vectors of a thread in registers, the rest in shared memory
  int min_blocks = 1;                 ///< resident blocks per multiprocessor that bound a thread's registers
  std::string registers = "float32";  ///< block, hybrid, cluster, grid
  int unroll = 4;                     ///< online, split: vectors in flight per thread
  int blocks_per_sm = 0;              ///< online: blocks in the grid per multiprocessor; 0: one per row
  int stages = 13;                    ///< pipeline: chunks in the ring
  int chunk_bytes = 16384;            ///< pipeline: of a chunk at most
  int ahead = 0;                      ///< pipeline: rows whose first pass is done before a row's second
  std::string access = "vectors";     ///< warp, block: how rows are taken that start between two vectors
  std::string load = "plain";
  std::string load_again = "plain";  ///< online, split: second pass
  std::string store = "plain";

  /// Throws Error(invalid_argument) naming the field, its value and what is allowed.
  static TypedConfig parse(const Config& config);
  Config to_config() const;

  /// The shape as this configuration takes it.
  Shape view(Shape shape) const {
    if (access != "vectors") shape.widest = access == "pairs" ? 2 : 1;
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
    return (holds_row() && variant != Variant::warp) || variant == Variant::online || variant == Variant::pipeline;
  }
  bool has_shared_vectors() const noexcept { return holds_row() && variant >= Variant::hybrid; }
  bool reads_twice() const noexcept { return variant == Variant::online || variant == Variant::split; }
  /// Dynamic shared memory of a block.
  std::int64_t smem_bytes(const Shape& shape) const noexcept;
  /// An estimate of the registers a thread needs: the row's part and what the code around it takes.
  int registers_needed(const Shape& shape) const noexcept;
};

std::string_view name(Variant variant) noexcept;
/// Throws Error(invalid_argument) that lists what exists.
Variant parse_variant(const Fields& fields);
std::vector<std::string_view> fields_of(Variant variant);
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
