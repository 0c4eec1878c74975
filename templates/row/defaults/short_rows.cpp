// Defaults for rows without alignment whose accesses are narrower than whole vectors, which would have code for their
// elements at both ends of a row. Measured on an H200 for 46 to 25003 columns and 64 to 600 MB (NOTES.md, "Unaligned rows:
// narrow accesses, few warps a row").

#include "templates/row/defaults/defaults.h"
#include "templates/row/defaults/geometry.h"

namespace tunesmith::row {
namespace {

struct Accesses {
  Access access;
  int of_lane;  ///< the most that a lane has, unless a row has more than 32 times as many
};

/// Returns the accesses of kernels that write a few numbers for each row.
Accesses for_sums(const Shape& shape, std::int64_t cols) {
  constexpr std::int64_t few_cols = 64;
  if (size_of(shape.input) >= 4 || cols >= few_cols) return {Access::vectors, 9};
  return {Access::pairs, 32};
}

/// Returns the accesses where terms replace elements: more for each lane, because exchanges are longer.
Accesses for_kept_terms(const Shape& shape, std::int64_t cols) {
  constexpr std::int64_t few_cols = 64, some_cols = 128;
  const bool even = shape.starts_at_pairs();
  if (size_of(shape.input) >= 4) return even ? Accesses{Access::pairs, 12} : Accesses{Access::elements, 20};
  if (even) return {Access::pairs, cols < few_cols ? 8 : 16};
  if (cols <= some_cols) return {Access::pairs, cols < few_cols ? 8 : 15};
  return {Access::vectors, 6};
}

/// Returns the accesses of other kernels that write rows.
Accesses for_rows(const Shape& shape, std::int64_t cols) {
  constexpr std::int64_t few_cols = 64, some_cols = 128, many_cols = 384;
  const bool wide = size_of(shape.input) >= 4, several = shape.inputs > 1;
  if (shape.starts_at_pairs()) {
    if (cols < few_cols) return {Access::pairs, wide ? 5 : 7};
    return {Access::pairs, !several ? 10 : wide ? 5 : 8};
  }
  if (!wide && cols > many_cols) return {Access::pairs, 12};
  if (cols < some_cols) return {Access::elements, wide ? 9 : 7};
  return {Access::elements, !wide ? 12 : several ? 10 : 13};
}

/// Returns the most bytes, over all inputs, of a row without alignment that narrow accesses read faster than vectors.
std::int64_t max_bytes_of_short_rows(const Shape& shape) noexcept {
  const bool wide = size_of(shape.input) >= 4, several = shape.inputs > 1;
  if (wide && shape.cost.writes && !shape.cost.terms_once && !shape.cost.reads_columns())
    return several ? 12 << 10 : 6 << 10;
  return several && !wide ? 6 << 10 : 4 << 10;
}

}  // namespace

bool is_short_unaligned(const Shape& shape) noexcept {
  return shape.shifted() && row_bytes(shape) <= max_bytes_of_short_rows(shape);
}

TypedConfig short_rows_default(const Shape& shape, std::int64_t cols, const DeviceInfo& device) {
  const bool wide = size_of(shape.input) >= 4, even = shape.starts_at_pairs();
  const Accesses accesses = !shape.cost.writes         ? for_sums(shape, cols)
                            : shape.cost.keeps_terms() ? for_kept_terms(shape, cols)
                                                       : for_rows(shape, cols);
  TypedConfig config;
  config.variant = Variant::warp;
  config.access = accesses.access;
  const int elements = config.view(shape).vector();
  config.lanes = threads_for((cols + elements - 1) / elements, accesses.of_lane, 1, 32);
  const bool narrow_gradient = shape.cost.writes && shape.cost.keeps_terms() && even;
  config.threads = narrow_gradient || (config.lanes == 32 && !shape.cost.keeps_terms()) ? 64 : 128;
  // The compiler takes no more registers for a block of one warp than the rows need.
  const int enough = wide ? 5 : 7;  // accesses of a lane
  if (config.lanes == 32 && shape.cost.writes && shape.cost.reduces && (wide || even) &&
      !(wide && shape.cost.keeps_terms()) && cols >= std::int64_t{32} * enough * elements) {
    TypedConfig block = config;
    block.variant = Variant::block;
    block.threads = 32;
    block.lanes = TypedConfig().lanes;
    block.registers = Registers::float32;
    bound_registers(block, block.view(shape), device);
    if (why_invalid(block, shape, device).empty()) config = block;
  }
  return with_hints(config, shape, device);
}

std::optional<TypedConfig> narrow_blocks(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t min_cols = 1024, min_cols_of_elements = 2048;
  const bool wide = size_of(shape.input) >= 4, several = shape.inputs > 1, columns = shape.cost.reads_columns();
  const bool even = shape.starts_at_pairs(), elements = wide && columns && shape.cols > min_cols_of_elements;
  if (!shape.cost.writes || !shape.cost.reduces || shape.wide() || shape.cost.sums_rows() || shape.cols <= min_cols ||
      !shape.shifted() || !(even || elements))
    return std::nullopt;
  if (shape.is_masked() && (wide || !(several || columns))) return std::nullopt;
  std::int64_t max_cols = wide ? 16384 : 12288;  // beyond, whole vectors are as fast
  if (columns) max_cols = !wide ? 32768 : even ? 16384 : 8192;
  if (several) max_cols = wide ? 10240 : 16384;
  if (shape.cost.terms_once) max_cols = wide ? 8192 : 3072;
  if (shape.cols > max_cols) return std::nullopt;
  std::int64_t each = 48;  // elements of a thread
  if (columns) each = !wide ? 26 : even ? 16 : 17;
  if (several) each = 24;
  TypedConfig config;
  config.access = even ? Access::pairs : Access::elements;
  config.registers = Registers::float32;
  config.threads = power_of_two_up(shape.cols / each, several || columns ? 64 : 32, columns && wide ? 1024 : 512);
  bound_registers(config, config.view(shape), device);
  if (!why_invalid(config, shape, device).empty()) return std::nullopt;
  return with_hints(config, shape, device);
}

}  // namespace tunesmith::row
