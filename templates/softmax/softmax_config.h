#pragma once
// A softmax configuration as plain numbers and words. Internal to templates/softmax.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "templates/softmax/softmax_shape.h"
#include "tunesmith/problem.h"

namespace tunesmith::softmax {

inline constexpr char entry[] = "softmax";
inline constexpr std::size_t params_bytes = 40;

enum class Variant : std::uint8_t { warp, block, hybrid, online };

/// Words as they stand in a configuration; a variant has only the fields that fields_of() lists.
struct TypedConfig {
  Variant variant = Variant::block;
  int threads = 256;
  int lanes = 32;                     ///< warp: lanes per row
  int register_vectors = 4;           ///< hybrid: vectors of a thread in registers, the rest in shared memory
  int min_blocks = 1;                 ///< block, hybrid: resident blocks that bound a thread's registers
  std::string registers = "float32";  ///< block, hybrid
  int unroll = 4;                     ///< online: vectors in flight per thread
  std::string load = "plain";
  std::string load_again = "plain";  ///< online: second pass
  std::string store = "plain";

  /// Throws Error(invalid_argument) naming the field, its value and what is allowed.
  static TypedConfig parse(const Config& config);
  Config to_config() const;

  int rows_per_block() const noexcept { return variant == Variant::warp ? threads / lanes : 1; }
  /// Dynamic shared memory of a block.
  std::int64_t smem_bytes(const Shape& shape) const noexcept;
  /// Vectors of a row that one thread holds (warp, block, hybrid).
  std::int64_t vectors_per_thread(const Shape& shape) const noexcept;
  /// An estimate of the registers a thread needs: the row's part and what the code around it takes.
  int registers_needed(const Shape& shape) const noexcept;
};

std::string_view name(Variant variant) noexcept;
std::vector<std::string_view> fields_of(Variant variant);

/// Empty, or why a well-formed configuration cannot run this shape on this device.
std::string why_invalid(const TypedConfig& config, const Shape& shape, const DeviceInfo& device);

/// The configuration used without measuring.
TypedConfig default_config(const Shape& shape, const DeviceInfo& device);
/// The same variant's best guess; well-formed, but not necessarily valid (a row may be too long for the variant).
TypedConfig default_config(Variant variant, const Shape& shape, const DeviceInfo& device);

}  // namespace tunesmith::softmax
