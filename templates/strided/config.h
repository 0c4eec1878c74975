#pragma once
// Configuration of a kernel over a strided dimension. Internal to templates/.

#include <cstdint>
#include <string>
#include <vector>

#include "templates/config_values.h"
#include "templates/op.h"
#include "templates/strided/shape.h"
#include "tunesmith/device_info.h"

namespace tunesmith::strided {

enum class Variant : std::uint8_t {
  resident,  ///< a block holds all columns of its positions in registers
  cluster,   ///< a cluster of blocks does
  two_pass,  ///< a block reads its columns twice
  split,     ///< several blocks share the columns, which are read twice, by two kernels
};

}  // namespace tunesmith::strided

namespace tunesmith {
template <>
inline constexpr std::array<std::string_view, 4> enum_names<strided::Variant>{"resident", "cluster", "two_pass", "split"};
}  // namespace tunesmith

namespace tunesmith::strided {

/// Only the fields that describe() lists for a variant are used.
struct TypedConfig {
  Variant variant = Variant::resident;
  int threads = 256;
  int lanes = 32;          ///< threads that process neighbouring vectors of positions
  int unroll = 4;          ///< two_pass, split: columns that a thread has in flight
  int blocks_per_row = 1;  ///< cluster, split: blocks that share the columns
  int min_blocks = 1;      ///< resident blocks per multiprocessor, which bound the registers per thread
  LoadHint load = LoadHint::plain;
  LoadHint load_again = LoadHint::plain;  ///< two_pass, split: second pass
  StoreHint store = StoreHint::plain;

  /// Throws Error(invalid_argument) with the field, its value and the allowed values.
  static TypedConfig parse(const Config& config);
  Config to_config() const;
  bool operator==(const TypedConfig&) const = default;

  bool reads_twice() const noexcept { return variant >= Variant::two_pass; }
  /// Returns the number of threads that share the columns.
  int members() const noexcept { return threads / lanes; }
  /// Returns the columns that a thread holds, or has in flight.
  std::int64_t columns(const Shape& shape) const noexcept;
  /// Returns the blocks along the positions.
  std::int64_t tiles(const Shape& shape) const noexcept { return (shape.vectors() + lanes - 1) / lanes; }
  /// Returns the static shared memory of the reductions, per block.
  std::int64_t smem_bytes(const Shape& shape) const noexcept;
  /// Returns the workspace of the sums over positions.
  std::int64_t column_sums_bytes(const Shape& shape) const noexcept;
  /// Estimates the registers per thread.
  int registers_needed(const Shape& shape) const noexcept;
};

/// Describes the fields of a configuration; the only table of them.
void describe(const TypedConfig& config, Description& description);

/// Returns why a well-formed configuration cannot run this shape on this device; empty if it can.
std::string why_invalid(const TypedConfig& config, const Shape& shape, const DeviceInfo& device);

/// Returns the configuration used without tuning.
TypedConfig default_config(const Shape& shape, const DeviceInfo& device);
/// Implement ParsedProblem::complete_config and ParsedProblem::search_space.
Config complete_config(const Config& partial, const Shape& shape, const DeviceInfo& device);
std::vector<Config> search_space(const Shape& shape, const DeviceInfo& device, Effort effort);

}  // namespace tunesmith::strided
