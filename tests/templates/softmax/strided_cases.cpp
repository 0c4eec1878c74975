#include "tests/templates/softmax/strided_cases.h"

#include <algorithm>
#include <string>

namespace tunesmith::test {
namespace {

/// Strides of an array, in elements: from one row, column and position to the next.
struct Strides {
  std::int64_t row, col, inner;
};

struct Layout {
  std::int64_t rows, cols, inner;
  Strides in, out;
  std::int64_t alignment = 16;  ///< of every array; at least the size of an element
  bool in_place = false;
  const char* options = "";
};

Strides contiguous(std::int64_t cols, std::int64_t inner) { return {cols * inner, inner, 1}; }

Layout plain(std::int64_t positions, std::int64_t cols, std::int64_t inner) {
  return {.rows = positions / inner + 1,
          .cols = cols,
          .inner = inner,
          .in = contiguous(cols, inner),
          .out = contiguous(cols, inner)};
}

std::string array_fields(const std::string& name, const Strides& strides, std::int64_t alignment) {
  return "," + name + "_row_stride=" + std::to_string(strides.row) + "," + name +
         "_col_stride=" + std::to_string(strides.col) + "," + name + "_inner_stride=" + std::to_string(strides.inner) + "," +
         name + "_alignment=" + std::to_string(alignment);
}

Problem problem_of(std::string_view op, const Layout& layout, DType in, DType out) {
  const bool backward = op.ends_with("backward");
  std::string fields = "rows=" + std::to_string(layout.rows) + ",cols=" + std::to_string(layout.cols) +
                       ",inner=" + std::to_string(layout.inner) + ",dtype=" + std::string(name(in)) +
                       ",out_dtype=" + std::string(name(out)) + ",in_place=" + (layout.in_place ? "1" : "0");
  const std::int64_t in_alignment = std::max(layout.alignment, size_of(in)),
                     out_alignment = std::max(layout.alignment, size_of(out));
  if (backward)
    fields += array_fields("dy", layout.in, in_alignment) + array_fields("y", layout.in, in_alignment) +
              array_fields("dx", layout.out, out_alignment);
  else
    fields += array_fields("x", layout.in, in_alignment) + array_fields("y", layout.out, out_alignment);
  return normalized(op, fields + layout.options);
}

}  // namespace

std::vector<Problem> strided_problems(std::int64_t positions) {
  std::vector<Layout> layouts;
  for (const std::int64_t inner : {2, 4, 7, 8, 16, 49, 64})
    for (const std::int64_t cols : {1, 2, 21, 100, 1000}) layouts.push_back(plain(positions, cols, inner));
  Layout layout = plain(positions, 37, 24);
  layout.in_place = true;
  layouts.push_back(layout);
  layout = plain(positions, 150, 24);
  layout.alignment = 1;  // of an element
  layouts.push_back(layout);
  layout = plain(positions, 33, 16);
  layout.options = ",scale=0.125,safe=1";
  layouts.push_back(layout);
  layout.options = ",safe=1";
  layouts.push_back(layout);
  layout.options = ",scale=3.7";
  layouts.push_back(layout);
  layout = plain(positions, 33, 8);  // padding after columns and rows
  layout.in = {33 * 12 + 4, 12, 1};
  layout.out = {33 * 11 + 3, 11, 1};
  layouts.push_back(layout);
  layout = plain(positions, 33, 8);  // every second element
  layout.in = {33 * 8 * 2, 8 * 2, 2};
  layouts.push_back(layout);
  layout.in = {33 * 8, 1, 33};  // adjacent columns into strided ones
  layouts.push_back(layout);
  layout.in = {1, 8 * layout.rows, layout.rows};  // adjacent rows
  layouts.push_back(layout);
  layout = {.rows = positions, .cols = 60, .inner = 1, .in = {1, positions, 1}, .out = {120, 2, 1}};  // a transposed matrix
  layouts.push_back(layout);
  layout = plain(positions, 40, 12);  // one row, one column, one position for all
  layout.in = {0, 12, 1};
  layouts.push_back(layout);
  layout.in = {40 * 12, 0, 1};
  layouts.push_back(layout);
  layout.in = {40, 1, 0};
  layouts.push_back(layout);
  layout = plain(1, 5003, 16);
  layouts.push_back(layout);
  layout = plain(positions, 33, 8);  // an output of adjacent columns, with gaps
  layout.out = {33 * 8 * 2, 1, 33 * 2};
  layouts.push_back(layout);

  constexpr DType dtypes[] = {DType::f32, DType::f16, DType::bf16};
  std::vector<Problem> problems;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const DType in = dtypes[i % 3], out = layouts[i].in_place ? in : dtypes[(i + i / 3) % 3];
    problems.push_back(problem_of(softmax_ops[i % 4], layouts[i], in, out));
    problems.push_back(problem_of(softmax_ops[(i + 2) % 4], layouts[i], DType::f32, DType::f32));
    problems.push_back(problem_of(softmax_ops[(i + 1) % 4], layouts[i], DType::f64, DType::f64));
  }
  return problems;
}

}  // namespace tunesmith::test
