#include "templates/strided/shape.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>

#include "core/half_octave.h"
#include "tunesmith/error.h"

namespace tunesmith::strided {
namespace {

/// Returns how many neighbouring positions are one aligned access in every column of the array.
std::int64_t aligned_vector(const Array& array) {
  if (array.inner_stride != 1) return 1;
  const std::int64_t strides = std::gcd(array.row_stride, array.col_stride) * size_of(array.dtype);
  return std::max<std::int64_t>(std::gcd(array.alignment, strides) / size_of(array.dtype), 1);
}

std::string strides_text(const Array& array) {
  return std::to_string(array.row_stride) + ", " + std::to_string(array.col_stride) + ", " +
         std::to_string(array.inner_stride);
}

}  // namespace

DType Shape::widest(const Array* arrays, int count) noexcept {
  return std::ranges::max_element(arrays, arrays + count, {}, [](const Array& array) { return size_of(array.dtype); })
      ->dtype;
}

DType Shape::output() const noexcept {
  const DType more = widest(more_out.data(), std::max(more_outputs, 1));
  return more_outputs > 0 && size_of(more) > size_of(out.dtype) ? more : out.dtype;
}

std::int64_t Shape::input_bytes() const noexcept {
  std::int64_t bytes = 0;
  for (const Array& array : std::span(in).first(static_cast<std::size_t>(inputs))) bytes += size_of(array.dtype);
  return bytes;
}

std::int64_t Shape::output_bytes() const noexcept {
  std::int64_t bytes = writes ? size_of(out.dtype) : 0;
  for (const Array& array : std::span(more_out).first(static_cast<std::size_t>(more_outputs))) bytes += size_of(array.dtype);
  return bytes;
}

std::int64_t Shape::input_words() const noexcept {
  std::int64_t words = 0;
  for (const Array& array : std::span(in).first(static_cast<std::size_t>(inputs)))
    words += (vector() * size_of(array.dtype) + 3) / 4;
  return words;
}

int Shape::vector() const noexcept {
  std::int64_t least = std::min<std::int64_t>(16 / std::max(size_of(input()), size_of(output())), aligned_vector(out));
  for (const Array& array : std::span(in).first(static_cast<std::size_t>(inputs)))
    least = std::min(least, aligned_vector(array));
  for (const Array& array : std::span(more_out).first(static_cast<std::size_t>(more_outputs)))
    least = std::min(least, aligned_vector(array));
  return static_cast<int>(std::gcd(std::min<std::int64_t>(least, max_vector), inner));
}

std::int64_t Shape::traffic_bytes() const noexcept { return rows * cols * inner * (input_bytes() + output_bytes()); }

std::int64_t Shape::rows_bucket() const noexcept {
  constexpr std::int64_t full = std::int64_t{1} << 20;
  return half_octave(std::clamp<std::int64_t>(rows * inner, 1, full));
}

std::string Shape::problem_class() const {
  // Where a column has fewer positions than a few sectors, accesses of neighbouring threads lie in several rows.
  constexpr std::int64_t many = 64;
  const auto bucket = std::bit_ceil(static_cast<std::uint64_t>(std::min(inner, many)));
  const bool adjacent =
      std::ranges::all_of(in.begin(), in.begin() + inputs, [](const Array& array) { return array.inner_stride == 1; });
  return "in=" + std::string(name(input())) + ",out=" + std::string(name(output())) + ",inner=" + std::to_string(bucket) +
         (adjacent ? "" : "+") + ",vector=" + std::to_string(vector()) + ",in_place=" + (in_place ? "1" : "0") +
         (scale != 1 ? ",scaled" : "") + (safe ? ",safe" : "");
}

void check_output(const Array& array, std::int64_t rows, std::int64_t cols, std::int64_t inner) {
  if (rows == 0 || cols == 0) return;
  struct Level {
    std::int64_t stride, extent;
  };
  std::array<Level, 3> levels{{{array.row_stride, rows}, {array.col_stride, cols}, {array.inner_stride, inner}}};
  std::ranges::sort(levels, {}, &Level::stride);
  std::int64_t below = 0;  // the farthest element of the levels so far
  for (const Level& level : levels) {
    if (level.extent <= 1) continue;
    if (level.stride <= below)
      throw Error(ErrorCode::invalid_argument, array.name, " is an output of ", rows, " rows, ", cols, " columns and ",
                  inner, " positions with the strides ", strides_text(array),
                  "; two of its elements would share an address");
    below += (level.extent - 1) * level.stride;
  }
}

void complete_in_place(const Array& input, std::int64_t& input_alignment, const Array& output,
                       std::int64_t& output_alignment) {
  const bool agree = input.dtype == output.dtype && input.row_stride == output.row_stride &&
                     input.col_stride == output.col_stride && input.inner_stride == output.inner_stride;
  if (!agree)
    throw Error(ErrorCode::invalid_argument, "in_place is 1, but ", input.name, " (", name(input.dtype), ", strides ",
                strides_text(input), ") and ", output.name, " (", name(output.dtype), ", strides ", strides_text(output),
                ") differ; both must agree");
  input_alignment = output_alignment = std::min(input_alignment, output_alignment);
}

}  // namespace tunesmith::strided
