#include "tests/templates/softmax/cases.h"

#include <algorithm>
#include <random>
#include <set>

namespace tunesmith::test {
namespace {

/// Layout of rows: elements of padding after each row, and alignment of the base addresses.
struct Layout {
  std::int64_t in_padding = 0, out_padding = 0;
  std::int64_t in_alignment = 16, out_alignment = 16;
  bool in_place = false;
};

std::string field(std::string_view name, std::int64_t value) {
  return "," + std::string(name) + "=" + std::to_string(value);
}

/// Returns a problem with this layout; both inputs of a gradient have the same one.
Problem laid_out(std::string_view op, std::int64_t rows, std::int64_t cols, DType in, DType out, const Layout& layout,
                 const std::string& options = {}) {
  const bool backward = op.ends_with("backward");
  const std::string first = backward ? "dy" : "x", last = backward ? "dx" : "y";
  std::string fields = "rows=" + std::to_string(rows) + field("cols", cols) + ",dtype=" + std::string(name(in)) +
                       ",out_dtype=" + std::string(name(out)) + field(first + "_row_stride", cols + layout.in_padding) +
                       field(last + "_row_stride", cols + layout.out_padding) +
                       field(first + "_alignment", layout.in_alignment) + field(last + "_alignment", layout.out_alignment) +
                       field("in_place", layout.in_place ? 1 : 0);
  if (backward) fields += field("y_row_stride", cols + layout.in_padding) + field("y_alignment", layout.in_alignment);
  return normalized(op, fields + (options.empty() ? "" : "," + options));
}

/// Returns options of forward and backward. Masks with three levels, as in attention: (batch, 2 heads, 3 queries).
std::vector<std::string> shared_options(std::int64_t cols) {
  const std::string stride = std::to_string(cols + 3), of_head = std::to_string(3 * (cols + 3));
  return {"scale=0.125",
          "scale=3.7",
          "causal=1",
          "safe=1",
          "valid_cols=1,safe=1",
          "valid_cols=1,valid_cols_group=3",
          "mask=keep,safe=1",
          "mask=keep,mask_alignment=1,mask_row_stride=" + stride,
          "mask=keep,mask_row_stride=0",
          "mask=keep,mask_inner=3,mask_middle=2,mask_middle_stride=" + of_head,  // the same for every batch
          "scale=3.7,causal=1,valid_cols=1,mask=keep,safe=1"};
}

std::vector<std::string> forward_options(std::int64_t cols) {
  const std::string stride = std::to_string(cols + 3), of_head = std::to_string(3 * (cols + 3)),
                    of_batch = std::to_string(7 * (cols + 3));
  std::vector<std::string> options = shared_options(cols);
  for (const std::string& more :
       {std::string("mask=add,safe=1"), std::string("mask=add,mask_dtype=f32,scale=0.125"),
        std::string("mask=add,mask_dtype=bf16,mask_row_stride=0"), "mask=add,mask_dtype=f16,mask_row_stride=" + stride,
        "mask=add,mask_dtype=f16,mask_alignment=2,mask_inner=3,mask_middle=2,mask_row_stride=" + stride +
            ",mask_middle_stride=" + of_head + ",mask_outer_stride=" + of_batch,
        "mask=add,mask_inner=3,mask_middle=2,mask_outer_stride=" + of_head,  // the same for every head
        std::string("scale=3.7,causal=1,valid_cols=1,valid_cols_group=3,mask=add,mask_dtype=bf16,safe=1")})
    options.push_back(more);
  return options;
}

}  // namespace

Problem normalized(std::string_view op, const std::string& fields) {
  return find_op(op).normalize({std::string(op), parse_fields(fields, "problem")});
}

Case case_of(const Problem& problem, const DeviceInfo& device, const std::string& config) {
  return {problem, find_op(problem.op).parse(problem)->complete_config(device, Config{parse_fields(config, "config")})};
}

Case case_of(std::string_view op, const std::string& fields, const DeviceInfo& device, const std::string& config) {
  return case_of(normalized(op, fields), device, config);
}

std::vector<Problem> edge_problems(std::int64_t rows) {
  std::vector<Problem> problems;
  const auto add = [&](std::int64_t cols, DType in, DType out, const Layout& layout) {
    problems.push_back(laid_out(softmax_ops[problems.size() % 4], rows, cols, in, out, layout));
  };
  constexpr DType dtypes[] = {DType::f32, DType::f16, DType::bf16};
  int turn = 0;
  for (const std::int64_t cols :
       {1, 2, 3, 7, 8, 31, 32, 33, 64, 100, 127, 128, 129, 256, 781, 1000, 1024, 1025, 2048, 4096, 5003, 8192, 12672}) {
    const DType in = dtypes[turn % 3], out = dtypes[turn / 3 % 3];
    ++turn;
    add(cols, in, out, {});
    add(cols, in, in, {.in_place = true});
    if (cols % 3 == 0 || cols % 5 == 0)  // unaligned
      add(cols, out, in, {.in_padding = 3, .out_padding = 5, .in_alignment = size_of(out), .out_alignment = size_of(in)});
    if (cols % 2 == 1)  // aligned rows with a ragged end
      add(cols, in, out, {.in_padding = 16 - cols % 16, .out_padding = 16 - cols % 16});
  }
  for (const DType in : dtypes)
    for (const DType out : dtypes) {
      add(777, in, out, {.out_padding = 8, .in_alignment = 8, .out_alignment = 4});
      add(2304, in, out, {});
    }
  return problems;
}

std::vector<Problem> option_problems(std::int64_t rows) {
  struct Shape {
    std::int64_t cols;
    DType in, out;
    Layout layout;
  };
  const Shape shapes[] = {
      {24, DType::f16, DType::f16, {}},
      {37, DType::f32, DType::f32, {}},
      {rows, DType::bf16, DType::f32, {}},  // square
      {128, DType::bf16, DType::bf16, {.in_place = true}},
      {255, DType::f16, DType::f16, {.in_padding = 3, .out_padding = 3}},
      {1000, DType::f32, DType::f32, {.in_padding = 8, .in_alignment = 8}},
      {2304, DType::f16, DType::bf16, {}},
      {5003, DType::f32, DType::f32, {.in_place = true}},
      {9000, DType::bf16, DType::bf16, {}},
  };
  std::vector<Problem> problems;
  std::size_t turn = 0;
  for (const std::string_view op : softmax_ops) {
    const bool backward = op.ends_with("backward");
    const auto options_of = [&](std::int64_t cols) { return backward ? shared_options(cols) : forward_options(cols); };
    for (std::size_t i = 0; i < options_of(1).size(); ++i) {
      const Shape& shape = shapes[turn++ % std::size(shapes)];
      problems.push_back(laid_out(op, rows, shape.cols, shape.in, shape.out, shape.layout, options_of(shape.cols)[i]));
    }
  }
  return problems;
}

std::vector<Problem> f64_problems(std::int64_t rows) {
  constexpr DType f64 = DType::f64;
  std::vector<Problem> problems;
  const auto add = [&](std::int64_t cols, const Layout& layout, const std::string& options = {}) {
    problems.push_back(laid_out(softmax_ops[problems.size() % 4], rows, cols, f64, f64, layout, options));
  };
  for (const std::int64_t cols : {1, 2, 3, 31, 64, 65, 129, 777, 1024, 2500, 8193}) {
    add(cols, {});
    add(cols, {.in_padding = 1, .out_padding = 3, .in_alignment = 8, .out_alignment = 8});  // one shift for both, or none
    add(cols, {.in_padding = cols % 2, .out_padding = 2 + cols % 2, .in_place = false});
  }
  add(1024, {.in_place = true});
  add(333, {.in_padding = 2, .out_padding = 2, .in_alignment = 8, .out_alignment = 8, .in_place = true});
  for (const std::string_view op : softmax_ops) {
    const bool backward = op.ends_with("backward");
    std::int64_t cols = 36;
    for (const std::string& options : backward ? shared_options(1000) : forward_options(1000)) {
      if (options.starts_with("causal") && options.size() < 10) {
        problems.push_back(laid_out(op, rows, rows, f64, f64, {}, options));  // square
        continue;
      }
      problems.push_back(laid_out(op, rows, cols, f64, f64, {}, options));
      cols = cols * 3 % 997 + 1;
    }
  }
  return problems;
}

std::vector<Config> sample_space(const Problem& problem, const DeviceInfo& device, std::size_t count, std::uint64_t seed) {
  std::vector<Config> space = find_op(problem.op).parse(problem)->search_space(device, Effort::full);
  std::mt19937_64 random(seed);
  std::shuffle(space.begin() + 1, space.end(), random);
  std::vector<Config> sample{space.front()};
  std::set<std::string> variants{space.front().variant()};
  for (const Config& config : space)
    if (variants.insert(config.variant()).second) sample.push_back(config);
  for (const Config& config : space)
    if (sample.size() < count && std::ranges::find(sample, config) == sample.end()) sample.push_back(config);
  return sample;
}

}  // namespace tunesmith::test
