// Blocks for programs that read arrays [col], such as weights.

#include "templates/row/defaults/defaults.h"
#include "templates/row/defaults/geometry.h"
#include "templates/row/defaults/memory.h"

namespace tunesmith::row {
namespace {

/// Properties that decide which block is fast.
struct Kind {
  bool bytes;           ///< elements of one byte, which take more registers
  bool groups;          ///< results for groups of columns
  bool several_stages;  ///< each reads the values of a row again
  bool three_stages;    ///< such as mean, variance, and the maximum for a scale
};

Kind kind_of(const Shape& shape) {
  const bool bytes = shape.has_bytes(), groups = shape.cost.lanes_of_group > 1;
  return {bytes, groups, shape.cost.composed && shape.cost.stages > 1, bytes && !groups && shape.cost.stages > 2};
}

bool has_kernels(const Shape& shape, const Kind& kind) {
  if (!shape.cost.reads_columns() || !shape.cost.reduces || shape.cost.sums_rows() || shape.cost.sorted_columns > 0)
    return false;
  if (shape.wide() || shape.is_masked()) return false;  // not measured
  // Several inputs in several stages: more threads would need more registers than there are.
  if (shape.inputs > 1 && kind.several_stages && !kind.bytes) return false;
  if (kind.three_stages && row_bytes(shape) < 32 * kib) return false;
  return row_bytes(shape) < (kind.groups ? 64 * kib + 1 : 64 * kib);
}

/// Returns the configuration with as many blocks on a multiprocessor as their registers allow, at most `most`.
std::optional<TypedConfig> with_blocks(TypedConfig config, int most, const Shape& shape, const DeviceInfo& device) {
  for (config.min_blocks = most; config.min_blocks > 0; --config.min_blocks)
    if (why_invalid(config, shape, device).empty()) return with_hints(config, shape, device);
  return std::nullopt;
}

}  // namespace

std::optional<TypedConfig> column_block(Access access, const Shape& shape, const DeviceInfo& device) {
  const Kind kind = kind_of(shape);
  if (!has_kernels(shape, kind)) return std::nullopt;
  const std::int64_t bytes = row_bytes(shape), bytes_of_thread = !is_narrow(shape) ? 160 : kind.three_stages ? 128 : 96;
  const bool unaligned_vectors = shape.shifted() && access == Access::vectors;
  // Stages convert packed values again.
  const bool packs =
      kind.several_stages ? kind.groups || (!kind.bytes && (bytes >= 32 * kib || unaligned_vectors)) : !kind.bytes;
  TypedConfig config;
  config.access = access;
  config.threads = power_of_two_up(bytes / shape.inputs / bytes_of_thread, 64, bytes < 64 * kib ? 256 : 512);
  if (packs && may_pack(shape)) config.registers = Registers::packed;
  // With 64, 85 or 128 registers for each thread.
  const int threads = kind.groups && kind.several_stages ? 1024 : kind.bytes || shape.inputs > 1 ? 512 : 768;
  return with_blocks(config, threads / config.threads, shape, device);
}

std::optional<TypedConfig> small_column_block(const Shape& shape, const DeviceInfo& device) {
  const Kind kind = kind_of(shape);
  const bool groups = kind.groups && shape.cost.stages > 2;
  const std::int64_t bytes = row_bytes(shape), least = groups ? 2 * kib : 2 * kib + 512;
  if (!needs_more_loads(device) || !shape.cost.composed || !has_kernels(shape, kind) || !is_narrow(shape) ||
      shape.shifted() || shape.inputs > 1 || (kind.bytes && !groups) || bytes < least || bytes >= 4 * kib)
    return std::nullopt;
  TypedConfig config;
  config.threads = groups ? 32 : 64;
  if ((groups || !kind.several_stages) && may_pack(shape)) config.registers = Registers::packed;
  return with_blocks(config, groups ? 25 : 12, shape, device);
}

TypedConfig program_block(const TypedConfig& max_rows, const Shape& shape, const DeviceInfo& device) {
  if (needs_more_loads(device))
    if (const auto block = column_block(max_rows.access, shape, device)) return *block;
  // Programs that write bytes take more registers, with which only one block of 512 threads fits.
  const bool simple = shape.inputs == 1 && !shape.has_bytes();
  const std::int64_t too_long_row = simple ? 64 * kib + 1 : 48 * kib;
  const std::int64_t values_of_thread = simple && shape.cols <= 4096 ? 32 : 64;
  if (!shape.cost.composed || shape.cost.stages < 2 || shape.cost.column_bytes == 0 || size_of(shape.input) != 2 ||
      shape.shifted() || row_bytes(shape) >= too_long_row)
    return max_rows;
  TypedConfig config = max_rows;
  config.registers = row_bytes(shape) >= 32 * kib ? Registers::packed : Registers::float32;
  config.threads = threads_for(shape.cols * shape.inputs, values_of_thread, 64, 512);
  bound_registers(config, shape, device);
  return why_invalid(config, shape, device).empty() ? config : max_rows;
}

}  // namespace tunesmith::row
