// The default of row programs without reductions.

#include "templates/row/defaults/defaults.h"
#include "templates/row/defaults/geometry.h"

namespace tunesmith::row {

TypedConfig elementwise_default(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t max_cols_of_pairs = 8192, max_cols_of_elements = 2048;
  TypedConfig config;
  if (shape.shifted() && shape.starts_at_pairs() && shape.cols <= max_cols_of_pairs)
    config.access = Access::pairs;
  else if (shape.shifted() && shape.cols <= max_cols_of_elements)
    config.access = Access::elements;
  const bool vectors = config.access == Access::vectors;
  const std::int64_t accesses = config.view(shape).vectors_per_row();
  if (accesses <= 32 * (vectors ? 2 : 8)) {
    config.variant = Variant::warp;
    config.threads = 128;
    config.lanes = threads_for(accesses, vectors ? 1 : 5, 1, 32);
    return config;
  }
  constexpr std::int64_t long_bytes = 32 << 10, too_long_bytes = 64 << 10;  // of a resident row
  const bool long_row = shape.inputs > 1 && vectors && !shape.shifted() && row_bytes(shape) >= long_bytes;
  if (long_row && row_bytes(shape) <= too_long_bytes) {
    // Most of a row is copied to shared memory while the rest is loaded; longer rows pass through.
    TypedConfig hybrid;
    hybrid.variant = Variant::hybrid;
    hybrid.threads = 256;
    hybrid.register_vectors = 3;
    hybrid.min_blocks = 4;
    if (may_pack(shape)) hybrid.registers = Registers::packed;
    if (why_invalid(hybrid, shape, device).empty()) return hybrid;
  }
  if (!long_row) {
    const std::int64_t of_thread = !vectors ? 9 : shape.shifted() ? 5 : 3, max_of_thread = of_thread + 3;
    config.threads = threads_for(accesses, of_thread, 32, 512);
    if (vectors && may_pack(shape)) config.registers = Registers::packed;
    if (config.vectors_per_thread(config.view(shape)) <= max_of_thread) {
      bound_registers(config, config.view(shape), device);
      return config;
    }
  }
  config = {};
  config.variant = Variant::two_pass;
  config.unroll = shape.inputs == 1 ? 2 : 1;
  config.threads = long_row ? 256 : 128;
  bound_registers(config, shape, device);
  return config;
}

}  // namespace tunesmith::row
