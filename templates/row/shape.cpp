#include "templates/row/shape.h"

#include <algorithm>
#include <bit>

#include "core/half_octave.h"

namespace tunesmith::row {

bool Shape::has_bytes() const noexcept {
  bool found = cost.writes && size_of(out.dtype.value_or(output)) == 1;
  for (int i = 0; i < inputs; ++i) found = found || size_of(input_dtype(i)) == 1;
  for (int i = 0; i < more_outputs; ++i) found = found || size_of(more_output_dtype(i)) == 1;
  return found;
}

std::int64_t Shape::widest_vector() const noexcept {
  return std::min<std::int64_t>(widest, 16 / std::max(size_of(input), size_of(output)));
}

Shape::Access Shape::access() const noexcept {
  const auto elements = [](const Rows& array, DType dtype) {
    const std::int64_t stride = array.stride * size_of(dtype);
    // Alignments are powers of two, so the greatest common divisor takes no divisions.
    return std::min(array.alignment, stride == 0 ? array.alignment : stride & -stride) / size_of(dtype);
  };
  const std::int64_t most = widest_vector();
  std::int64_t least = std::min(most, elements(out, out.dtype.value_or(output)));
  for (int i = 0; i < inputs; ++i) least = std::min(least, elements(in[static_cast<std::size_t>(i)], input_dtype(i)));
  for (int i = 0; i < more_outputs; ++i)
    least = std::min(least, elements(more_out[static_cast<std::size_t>(i)], more_output_dtype(i)));
  const bool shifted = least != most && offsets_agree(most);
  return {static_cast<int>(shifted ? most : least), shifted};
}

bool Shape::offsets_agree(std::int64_t vector) const noexcept {
  const Rows& first = in[0];
  const auto agrees = [&](const Rows& array, DType dtype, bool is_first) {
    const bool base_agrees =
        is_first || (array.alignment >= vector * size_of(dtype) && first.alignment >= vector * size_of(input_dtype(0)));
    return base_agrees && (array.stride - first.stride) % vector == 0;
  };
  for (int i = 1; i < inputs; ++i)
    if (!agrees(in[static_cast<std::size_t>(i)], input_dtype(i), false)) return false;
  for (int i = 0; i < more_outputs; ++i)
    if (!agrees(more_out[static_cast<std::size_t>(i)], more_output_dtype(i), false)) return false;
  return agrees(out, out.dtype.value_or(output), in_place && !out_is_apart);
}

int Shape::line_of(const Access& access) const noexcept {
  if (!access.shifted) return 0;
  const bool is_long = cols * size_of(input_dtype(0)) >= 16 * line_bytes;
  return is_long ? static_cast<int>(line_bytes / size_of(input_dtype(0))) : access.vector;
}

std::int64_t Shape::vectors_per_row(std::int64_t width) const noexcept {
  const Access rows_access = access();
  const std::int64_t before = rows_access.shifted ? line_of(rows_access) - 1 : 0;
  return (width + before + rows_access.vector - 1) / rows_access.vector;
}

std::int64_t Shape::resident_element_bytes() const noexcept {
  if (options.mask == Mask::add) return std::int64_t{4} * words_of_value() * inputs;
  std::int64_t bytes = 0;
  for (int i = 0; i < inputs; ++i) bytes += size_of(input_dtype(i));
  return bytes;
}

std::int64_t Shape::min_resident_bytes() const noexcept {
  std::int64_t bytes = options.mask == Mask::add ? 4 * words_of_value() : size_of(input);
  for (int i = 0; i < inputs; ++i)
    if (in[static_cast<std::size_t>(i)].dtype) bytes = std::min(bytes, size_of(input_dtype(i)));
  return bytes;
}

std::int64_t Shape::traffic_bytes() const noexcept {
  std::int64_t bytes = cost.writes ? size_of(out.dtype.value_or(output)) : 0;
  for (int i = 0; i < inputs; ++i) bytes += size_of(input_dtype(i));
  for (int i = 0; i < more_outputs; ++i) bytes += size_of(more_output_dtype(i));
  return rows * cols * bytes;
}

bool Shape::without_gaps() const noexcept {
  const std::int64_t row = actual_cols == 0 ? cols : actual_cols;
  const auto good = [&](const Rows& array) { return array.stride == row && array.alignment >= 16; };
  bool all = good(out);
  for (int i = 0; i < inputs; ++i) all = all && good(in[static_cast<std::size_t>(i)]);
  for (int i = 0; i < more_outputs; ++i) all = all && good(more_out[static_cast<std::size_t>(i)]);
  return all;
}

std::string Shape::problem_class() const {
  std::string text = "in=" + std::string(name(input)) + ",out=" + std::string(cost.writes ? name(output) : "none") +
                     ",vector=" + std::to_string(vector()) + (shifted() ? "s" : "") + ",in_place=" + (in_place ? "1" : "0");
  if (shifted() && !without_gaps()) text += ",gaps";
  if (options.scaled()) text += ",scaled";
  if (options.causal) text += ",causal";
  if (options.valid_cols) text += ",valid_cols";
  if (options.safe) text += ",safe";
  if (is_masked()) {
    text += options.mask == Mask::add ? ",add=" + std::string(name(options.mask_dtype)) : ",keep";
    text += ":" + std::to_string(mask_vector()) + (options.mask_row_stride == 0 ? "b" : "");
  }
  return text;
}

std::int64_t Shape::rows_bucket() const noexcept {
  constexpr std::int64_t most = std::int64_t{1} << 26, of_octave = 8;
  if (few_and_long() || few_read_once()) {
    const auto octave = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(rows)));
    const std::int64_t step = std::max<std::int64_t>(octave / of_octave, 1);
    return (rows + step - 1) / step * step;
  }
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(rows, 1, most))));
}

std::int64_t Shape::tuned_rows_bucket() const noexcept {
  constexpr std::int64_t full = 65536;
  if (few_and_long()) return rows_bucket();
  return half_octave(std::clamp<std::int64_t>(rows, 1, full));
}

namespace {

/// Columns from which rows that are not vector-aligned have accesses to whole vectors: an end of a bucket.
constexpr std::int64_t min_cols_of_vectors = 1024;

/// Returns by how many columns the bucket of a row ends earlier because the row is not vector-aligned.
std::int64_t columns_before(const Shape& shape) noexcept {
  if (!shape.shifted()) return 0;
  return shape.cols < min_cols_of_vectors ? 1 : shape.line() - 1;
}

}  // namespace

std::int64_t Shape::min_row_bytes() const noexcept {
  const std::int64_t width = actual_cols == 0 ? cols : actual_cols;
  return min_cols_of(capacity_of(width + columns_before(*this))) * resident_element_bytes();
}

bool Shape::few_and_long() const noexcept {
  constexpr std::int64_t few = 256, very_few = 192, long_row = 112 << 10, medium_row = 80 << 10;
  if (!cost.writes || !cost.reduces || is_masked() || rows < 1 || rows > few) return false;
  return min_row_bytes() > (rows <= very_few ? medium_row : long_row);
}

bool Shape::few_read_once() const noexcept {
  constexpr std::int64_t few = 128, long_row = 32 << 10;
  return !cost.writes && cost.reduces && rows >= 1 && rows <= few && min_row_bytes() >= long_row;
}

std::int64_t Shape::capacity() const noexcept {
  const std::int64_t before = columns_before(*this);
  const std::int64_t least = before > 1 ? min_cols_of_vectors + 1 : 1;
  const std::int64_t end = std::min(capacity_of(std::max(cols + before, least)) - before, max_cols_of_all);
  return cols <= max_cols_of_buckets && end + before >= max_cols_of_buckets ? max_cols_of_buckets : end;
}

Shape Shape::with_vectors_of(int elements) const {
  Shape shape = *this;
  shape.widest = elements;
  return shape;
}

Shape Shape::with_capacity() const {
  Shape shape = *this;
  const std::int64_t before = columns_before(*this);
  shape.actual_cols = cols;
  shape.cols = capacity();
  const std::int64_t end = shape.cols == max_cols_of_buckets ? shape.cols : shape.cols + before;
  shape.min_cols = std::max<std::int64_t>(min_cols_of(end) - before, 1);
  if (before > 1) shape.min_cols = std::max(shape.min_cols, min_cols_of_vectors);
  if (!crosses_ends()) shape.min_cols = (shape.min_cols + vector() - 1) / vector() * vector();  // rows of whole vectors
  return shape;
}

std::string Shape::capacity_class() const {
  const Shape shape = with_capacity();
  std::string text = "rows=" + std::to_string(rows_bucket()) + (shape.crosses_ends() ? ",ends=any," : ",ends=whole,") +
                     shape.problem_class();
  if (shape.shifted()) {  // the configuration may choose accesses to pairs, at which rows may start and end
    const Shape pairs = shape.with_vectors_of(2);
    text += pairs.shifted() ? ",pairs=s" : pairs.crosses_ends() ? ",pairs=any" : ",pairs=whole";
  }
  return text;
}

}  // namespace tunesmith::row
