// The configuration that every n_cols of a bucket shares, without tuning: the default of the widest row, adapted.

#include <algorithm>
#include <optional>

#include "templates/row/capacity.h"
#include "templates/row/defaults/defaults.h"
#include "templates/row/defaults/geometry.h"
#include "templates/row/prefetch.h"
#include "templates/row/stagger.h"

namespace tunesmith::row {
namespace {

/// Returns the rows that a multiprocessor works on at once, if blocks or clusters of them hold rows.
double rows_in_flight(const TypedConfig& config) {
  const int blocks_per_row = config.variant == Variant::cluster ? config.blocks_per_row : 1;
  return static_cast<double>(config.min_blocks) / blocks_per_row;
}

/// Returns the warps for rows in shared memory: lanes for narrow rows, with a few more accesses for wide rows. Masked rows
/// stay in global memory: behind the branches that leave a staged row, the compiler loads one element after
/// another, 1.1 to 2.0 times the time of the kernel for the width instead of 0.95 to 1.09 (H100).
TypedConfig staged_for_capacity(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t few_cols = 128;
  if (shape.is_masked() && shape.cols >= few_cols) {
    TypedConfig config;
    config.variant = Variant::warp;
    config.threads = 64;
    config.access = Access::elements;
    return config;
  }
  return staged_default(shape, device, min_cols_of(capacity_of(shape.cols)));
}

/// Returns `config` with as much of the row in registers as possible, or nothing if it is invalid.
std::optional<TypedConfig> filled(TypedConfig config, int threads, int blocks, const Shape& shape,
                                  const DeviceInfo& device) {
  if (!fill_chip(config, threads, blocks, shape, device)) return std::nullopt;
  return config;
}

Shape middle_of_bucket(Shape shape) {
  const std::int64_t middle = (min_cols_of(shape.cols) + shape.cols) / 2;
  shape.cols = std::max<std::int64_t>(middle / shape.vector(), 1) * shape.vector();
  return shape;
}

/// Returns the configuration of warps for a bucket of widths.
TypedConfig warps_for_capacity(TypedConfig best, const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t max_accesses = 16;  // of a lane whose accesses may be beyond the end
  constexpr std::int64_t narrow_cols = 64;
  // Vectors of a lane that holds a row. Behind predicates, the loads of more miss L1 more often: 1.22 of the time.
  constexpr std::int64_t max_streamed_vectors = 4;
  // Aligned rows up to which the lanes of the widest one cost the others up to 1.44 of their time, where terms replace
  // elements and elsewhere.
  const std::int64_t few_lanes_cols = shape.cost.keeps_terms() ? 32 : max_cols_of_first_bucket;
  TypedConfig config = best;
  if (shape.shifted() && shape.cost.reduces) {
    // Lanes for narrow rows: with the lanes for the widest row, most would have nothing to do.
    const std::int64_t least = min_cols_of(capacity_of(shape.cols));
    const bool few = shape.cols <= narrow_cols;
    const TypedConfig narrow = short_rows_default(shape, few ? (least + shape.cols) / 2 : least, device);
    if (narrow.variant == Variant::block) return if_valid(narrow, shape, device).value_or(best);
    config.access = few && size_of(shape.input) == 2 && narrow.access == Access::elements ? Access::pairs : narrow.access;
    config.lanes = narrow.lanes;
    config.threads = narrow.threads;
  }
  if (shape.shifted() && size_of(shape.input) == 2 && shape.cols < 4) {
    config.access = Access::elements;
  } else if (shape.shifted() && shape.cost.column_bytes > 0 &&
             config.vectors_per_thread(config.view(shape)) > max_accesses) {
    // A block of one warp has a bound on its registers.
    config.variant = Variant::block;
    config.threads = 32;
    config.registers = Registers::float32;
    bound_registers(config, config.view(shape), device);
  } else if (!shape.shifted() && shape.cols <= few_lanes_cols) {
    const TypedConfig usual = default_config(middle_of_bucket(shape), device);
    if (usual.variant == Variant::warp) config.lanes = usual.lanes;
  } else if (config.lanes == 1 && config.load == LoadHint::streaming && shape.vectors_per_row() > max_streamed_vectors) {
    config.lanes = 2;
    config.threads = 64;
  } else if (!shape.shifted() && shape.cols > narrow_cols && shape.cost.column_bytes == 0) {
    // The widest row may have twice the lanes that most rows of the bucket need.
    constexpr double few_idle = 1.15;
    const Shape middle = middle_of_bucket(shape);
    const TypedConfig usual = default_config(middle, device);
    const auto accesses = [&](const TypedConfig& warp) {  // of a row, idle lanes included
      return static_cast<double>(warp.vectors_per_thread(middle) * warp.lanes);
    };
    if (usual.variant != Variant::warp || accesses(best) <= few_idle * accesses(usual)) return best;
    config.lanes = usual.lanes;
    config.threads = 128;
  }
  return if_valid(config, shape, device).value_or(best);
}

/// Returns the configuration of blocks for a bucket of widths whose rows are not vector-aligned.
TypedConfig shifted_blocks_for_capacity(TypedConfig best, const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t long_row = 8192;
  TypedConfig config = best;
  if (shape.inputs > 1 && size_of(shape.input) == 2 && shape.cols >= long_row && best.access == Access::vectors) {
    // Vectors in shared memory have less code for their ends.
    config.variant = Variant::hybrid;
    config = filled(config, 384, 4, shape, device).value_or(best);
    config.register_vectors = std::min(config.register_vectors, 1);
  } else if (shape.inputs > 1 && size_of(shape.input) >= 4) {
    config.access = Access::elements;
    config.threads = 256;  // and as many blocks: a thread keeps fewer partial vectors
  }
  return if_valid(config, shape, device).value_or(best);
}

/// Returns the configuration where terms of unaligned columns of 16 bits are computed once, 1024 to 1536 if they replace
/// elements and 1024 to 2048 if not: warps would have code for the ends of a row in each access.
std::optional<TypedConfig> medium_terms_once(const TypedConfig& best, const Shape& shape, const DeviceInfo& device) {
  const std::int64_t max_cols = shape.cost.writes ? 1536 : 2048;
  if (!shape.cost.terms_once || !shape.shifted() || size_of(shape.input) != 2 || shape.cols < 1024 || shape.cols >= max_cols)
    return std::nullopt;
  TypedConfig config;
  config.threads = 32;
  config.min_blocks = 32;
  config.registers = Registers::packed;
  if (!shape.cost.writes) config.load = best.load;
  return if_valid(config, shape, device);
}

/// Adapts a default configuration to a capacity. Columns that rows do not have take room, too, and unaligned rows have code
/// for partial vectors in each vector beyond the narrowest row. Measured on an H200 (NOTES.md, "Kernels for buckets of
/// widths").
TypedConfig for_capacity(TypedConfig best, const Shape& shape, const DeviceInfo& device) {
  if (best.access == Access::staged) return if_valid(staged_for_capacity(shape, device), shape, device).value_or(best);
  if (const std::optional<TypedConfig> config = medium_terms_once(best, shape, device)) return *config;
  constexpr std::int64_t max_vectors = 4;  // of each lane of a warp: more take 96 registers, 78 in the kernel for one width
  if (best.variant == Variant::warp && best.lanes == 32 && best.vectors_per_thread(shape) > max_vectors)
    if (const std::optional<TypedConfig> config = gradient_block(shape, device)) best = *config;
  if (best.load == LoadHint::evict_last) best.load = LoadHint::plain;
  if (shape.few_and_long() && !shape.cost.composed) return best;
  if (best.variant == Variant::block && best.access != Access::vectors) return best;
  if (best.variant == Variant::warp) return warps_for_capacity(best, shape, device);
  if (best.reads_twice()) {  // no row is resident: fit most rows, not the widest one
    TypedConfig config = default_config(middle_of_bucket(shape), device);
    config.load = best.load;
    return config.variant == best.variant && why_invalid(config, shape, device).empty() ? config : best;
  }
  const auto row_bytes = static_cast<double>(shape.cols * shape.resident_element_bytes());
  const bool wide = size_of(shape.input) >= 4;
  constexpr double enough_in_flight = 240 << 10;
  constexpr std::int64_t max_with_columns = 12;  // vectors of a thread that also loads arrays [col]
  constexpr double long_row = 32 << 10;
  if (best.variant == Variant::cluster && shape.inputs > 1 && wide && rows_in_flight(best) * row_bytes < enough_in_flight) {
    // Fewer threads with more registers hold a row in fewer blocks.
    for (const int threads : {384, 256})
      for (const int size : {1, 2, 4}) {
        TypedConfig config = best;
        config.variant = size == 1 ? Variant::hybrid : Variant::cluster;
        config.blocks_per_row = size;
        const std::optional<TypedConfig> smaller = filled(config, threads, 2, shape, device);
        if (smaller && rows_in_flight(*smaller) > rows_in_flight(best)) best = *smaller;
      }
  } else if (best.variant == Variant::cluster && shape.cost.keeps_terms()) {
    constexpr int moderate = 6;
    TypedConfig config = filled(best, 384, best.min_blocks, shape, device).value_or(best);
    config.register_vectors = std::min(config.register_vectors, moderate);
    if (why_invalid(config, shape, device).empty()) best = config;
  } else if (best.variant == Variant::hybrid && shape.shifted() && (shape.inputs > 1 || wide) && best.threads == 512) {
    best = filled(best, 256, best.min_blocks, shape, device).value_or(best);
  } else if (best.variant == Variant::block && !shape.shifted() && shape.cost.column_bytes > 0 && row_bytes >= long_row &&
             best.vectors_per_thread(shape) > max_with_columns) {
    const TypedConfig hybrid = default_config(Variant::hybrid, shape, device);
    if (why_invalid(hybrid, shape, device).empty()) best = hybrid, best.load = LoadHint::plain;
  } else if (best.variant == Variant::block && shape.shifted()) {
    best = shifted_blocks_for_capacity(best, shape, device);
  }
  return best;
}

}  // namespace

TypedConfig capacity_config(const Shape& shape, const DeviceInfo& device) {
  Shape longest = shape;
  longest.rows = shape.rows_bucket();
  longest.cols = shape.capacity();
  longest.actual_cols = shape.cols;
  longest.cost.streamed_part_bytes = 0;  // the pipeline's layout of shared memory depends on the width
  TypedConfig config = default_config(longest, device);
  config = for_capacity(config, longest, device);
  bound_persistent_warps(config, longest, device);
  config.stagger_bytes_per_ns = default_stagger(config, longest, device);
  config.prefetch_blocks = default_prefetch(config, longest, device);
  config.capacity = longest.cols;
  return config;
}

}  // namespace tunesmith::row
