#include "templates/softmax/softmax_op.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "templates/softmax/softmax_config.h"
#include "templates/softmax/softmax_shape.h"
#include "tunesmith/error.h"
#include "tunesmith/softmax.h"

namespace tunesmith {
namespace softmax {

Shape::Shape(const Problem& problem)
    : rows(problem.fields.integer("rows")),
      cols(problem.fields.integer("cols")),
      input(parse_dtype(problem.fields.word("dtype"))),
      output(parse_dtype(problem.fields.word("out_dtype"), "out_dtype")),
      x_row_stride(problem.fields.integer("x_row_stride")),
      y_row_stride(problem.fields.integer("y_row_stride")),
      x_alignment(problem.fields.integer("x_alignment")),
      y_alignment(problem.fields.integer("y_alignment")),
      in_place(problem.fields.integer("in_place") != 0) {}

std::int64_t Shape::widest_vector() const noexcept { return 16 / std::max(size_of(input), size_of(output)); }

std::int64_t Shape::aligned_vector() const noexcept {
  const auto elements = [](std::int64_t alignment, std::int64_t row_stride, DType dtype) {
    return std::gcd(alignment, row_stride * size_of(dtype)) / size_of(dtype);
  };
  return std::min(
      {widest_vector(), elements(x_alignment, x_row_stride, input), elements(y_alignment, y_row_stride, output)});
}

bool Shape::shifted() const noexcept {
  const std::int64_t widest = widest_vector();
  if (aligned_vector() == widest) return false;
  const bool bases_agree = in_place || (x_alignment >= widest * size_of(input) && y_alignment >= widest * size_of(output));
  return bases_agree && (x_row_stride - y_row_stride) % widest == 0;
}

int Shape::vector() const noexcept { return static_cast<int>(shifted() ? widest_vector() : aligned_vector()); }

}  // namespace softmax

namespace {

using softmax::Shape;

// Must agree with SoftmaxParams in softmax.cuh; the generated source asserts the size.
struct Params {
  std::uint64_t x, y;
  std::int64_t rows, x_row_stride, y_row_stride;
};
static_assert(sizeof(Params) == softmax::params_bytes);

constexpr std::int64_t max_cols = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t max_extent_bytes = std::int64_t{1} << 56;  // far beyond any memory, far below overflow

std::int64_t integer_between(const Problem& problem, std::string_view field, std::int64_t fallback, std::int64_t least,
                             std::int64_t most) {
  if (!problem.fields.contains(field)) return fallback;
  const std::int64_t value = problem.fields.integer(field);
  if (value < least || value > most)
    throw Error(ErrorCode::invalid_argument, field, " is ", value, "; allowed: ", least, " to ", most);
  return value;
}

std::int64_t alignment_field(const Problem& problem, std::string_view field, DType dtype) {
  const std::int64_t value = integer_between(problem, field, 16, 1, std::int64_t{1} << 40);
  if (!std::has_single_bit(static_cast<std::uint64_t>(value)) || value < size_of(dtype))
    throw Error(ErrorCode::invalid_argument, field, " is ", value, "; allowed: a power of two from ", size_of(dtype),
                " (the size of one ", tunesmith::name(dtype), ") up");
  return std::min<std::int64_t>(value, 16);  // no access is wider
}

void check_extent(std::string_view array, std::int64_t rows, std::int64_t row_stride, DType dtype) {
  if (rows == 0 || row_stride <= max_extent_bytes / size_of(dtype) / rows) return;
  throw Error(ErrorCode::invalid_argument, "rows is ", rows, " and the row stride of ", array, " is ", row_stride,
              " elements of ", size_of(dtype), " bytes: the array would span more than 2^56 bytes");
}

}  // namespace

std::vector<FieldInfo> SoftmaxOp::problem_fields() const {
  const std::vector<std::string_view> dtypes{"f32", "f16", "bf16"};
  return {
      {"rows", "number of rows, from 0", "", {}},
      {"cols", "number of columns, from 1; kernels are specialized for it", "", {}},
      {"dtype", "element type of x", "f32", dtypes},
      {"out_dtype", "element type of y", "that of x", dtypes},
      {"x_row_stride", "elements from one row of x to the next", "cols", {}},
      {"y_row_stride", "elements from one row of y to the next", "cols", {}},
      {"x_alignment", "bytes that the address of x is a multiple of", "16", {}},
      {"y_alignment", "bytes that the address of y is a multiple of", "16", {}},
      {"in_place", "1: y is x", "0", {}},
  };
}

Problem SoftmaxOp::normalize(const Problem& problem) const {
  const std::vector<FieldInfo> known = problem_fields();
  for (const auto& item : problem.fields) {
    const std::string& field = item.first;
    if (std::ranges::any_of(known, [&](const FieldInfo& info) { return info.name == field; })) continue;
    std::string names;
    for (const FieldInfo& info : known) names += (names.empty() ? "" : ", ") + std::string(info.name);
    throw Error(ErrorCode::invalid_argument, "'", field, "' is not a field of ", name(), "; allowed: ", names);
  }
  for (const std::string_view required : {"rows", "cols"})
    if (!problem.fields.contains(required))
      throw Error(ErrorCode::invalid_argument, required, " is missing; ", name(), " needs rows and cols");

  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
  const std::int64_t rows = integer_between(problem, "rows", 0, 0, any);
  const std::int64_t cols = integer_between(problem, "cols", 1, 1, max_cols);
  const DType input = problem.fields.contains("dtype") ? parse_dtype(problem.fields.word("dtype")) : DType::f32;
  const DType output =
      problem.fields.contains("out_dtype") ? parse_dtype(problem.fields.word("out_dtype"), "out_dtype") : input;
  const auto stride = [&](std::string_view field) {
    const std::int64_t value = integer_between(problem, field, cols, 0, any);
    return value == 0 ? cols : value;
  };
  const std::int64_t x_row_stride = stride("x_row_stride");
  const std::int64_t y_row_stride = stride("y_row_stride");
  if (x_row_stride < cols || y_row_stride < cols)
    throw Error(ErrorCode::invalid_argument, x_row_stride < cols ? "x_row_stride" : "y_row_stride", " is ",
                std::min(x_row_stride, y_row_stride), "; allowed: at least cols, ", cols);
  check_extent("x", rows, x_row_stride, input);
  check_extent("y", rows, y_row_stride, output);
  const std::int64_t in_place = integer_between(problem, "in_place", 0, 0, 1);
  if (in_place == 1 && (input != output || x_row_stride != y_row_stride))
    throw Error(ErrorCode::invalid_argument, "in_place is 1, but x (", tunesmith::name(input), ", row stride ", x_row_stride,
                ") and y (", tunesmith::name(output), ", row stride ", y_row_stride, ") differ; both must agree");
  std::int64_t x_alignment = alignment_field(problem, "x_alignment", input);
  std::int64_t y_alignment = alignment_field(problem, "y_alignment", output);
  if (in_place == 1) x_alignment = y_alignment = std::min(x_alignment, y_alignment);

  return {std::string(name()),
          {{"rows", rows},
           {"cols", cols},
           {"dtype", std::string(tunesmith::name(input))},
           {"out_dtype", std::string(tunesmith::name(output))},
           {"x_row_stride", x_row_stride},
           {"y_row_stride", y_row_stride},
           {"x_alignment", x_alignment},
           {"y_alignment", y_alignment},
           {"in_place", in_place}}};
}

std::vector<ArrayInfo> SoftmaxOp::arrays(const Problem& problem) const {
  const Shape shape(problem);
  return {{.name = "x",
           .input = true,
           .dtype = shape.input,
           .shape = {shape.rows, shape.cols},
           .strides = {shape.x_row_stride, 1},
           .alignment = shape.x_alignment},
          {.name = "y",
           .output = true,
           .dtype = shape.output,
           .shape = {shape.rows, shape.cols},
           .strides = {shape.y_row_stride, 1},
           .alignment = shape.y_alignment}};
}

KeyParts SoftmaxOp::key(const Problem& problem) const {
  const Shape shape(problem);
  KeyParts parts;
  parts.semantics = "x=" + std::string(tunesmith::name(shape.input)) + ",y=" + std::string(tunesmith::name(shape.output)) +
                    ",vector=" + std::to_string(shape.vector()) + (shape.shifted() ? "s" : "") +
                    ",in_place=" + (shape.in_place ? "1" : "0");
  parts.n_cols = shape.cols;
  // From 65536 rows on every GPU is full whatever the configuration, and only cols matters.
  constexpr std::uint64_t full = 65536;
  parts.rows_bucket = static_cast<std::int64_t>(std::bit_ceil(std::min<std::uint64_t>(shape.rows, full)));
  return parts;
}

Cost SoftmaxOp::cost(const Problem& problem) const {
  const Shape shape(problem);
  const double elements = static_cast<double>(shape.rows) * static_cast<double>(shape.cols);
  // Subtract, exponential, add, multiply and the comparison for the maximum.
  return {elements * static_cast<double>(size_of(shape.input)), elements * static_cast<double>(size_of(shape.output)),
          5 * elements};
}

LaunchPlan SoftmaxOp::launch_plan(const Problem& problem, const Config& config, const DeviceInfo&) const {
  const Shape shape(problem);
  const softmax::TypedConfig typed = softmax::TypedConfig::parse(config);
  LaunchPlan plan;
  const Params params{0, 0, shape.rows, shape.x_row_stride, shape.y_row_stride};
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  const std::vector<ArrayInfo> layouts = arrays(problem);
  for (std::size_t i = 0; i < layouts.size(); ++i)
    plan.pointers.push_back({layouts[i].name, static_cast<std::uint32_t>(i * sizeof params.x),
                             static_cast<std::uint32_t>(layouts[i].alignment), layouts[i].extent_bytes(), layouts[i].output,
                             false});
  plan.in_place = shape.in_place;
  if (shape.rows == 0) return plan;

  const std::int64_t rows_per_block = typed.rows_per_block();
  const std::int64_t blocks = (shape.rows + rows_per_block - 1) / rows_per_block;
  constexpr std::int64_t max_grid_x = std::numeric_limits<std::int32_t>::max();
  const std::int64_t folds = (blocks + max_grid_x - 1) / max_grid_x;
  constexpr std::int64_t max_grid_y = 65535;
  if (folds > max_grid_y)
    throw Error(ErrorCode::invalid_argument, "rows is ", shape.rows, "; a grid holds at most ",
                max_grid_x * max_grid_y * rows_per_block, " rows of this configuration");
  KernelLaunch launch;
  launch.entry = softmax::entry;
  launch.grid = {static_cast<std::uint32_t>((blocks + folds - 1) / folds), static_cast<std::uint32_t>(folds), 1};
  launch.block = {static_cast<std::uint32_t>(typed.threads), 1, 1};
  launch.dynamic_smem_bytes = typed.smem_bytes(shape);
  plan.kernels.push_back(launch);
  return plan;
}

Problem SoftmaxOp::verification_problem(const Problem& problem) const {
  const Shape shape(problem);
  // About a million elements, but enough rows for every awkward one, and a number that no block size divides.
  Problem small = problem;
  small.fields.set("rows", std::clamp<std::int64_t>((std::int64_t{1} << 20) / shape.cols, 16, 512) + 1);
  return small;
}

Problem to_problem(const SoftmaxProblem& problem) {
  return {"softmax",
          {{"rows", problem.rows},
           {"cols", problem.cols},
           {"dtype", std::string(name(problem.dtype))},
           {"out_dtype", std::string(name(problem.out_dtype))},
           {"x_row_stride", problem.x_row_stride},
           {"y_row_stride", problem.y_row_stride},
           {"x_alignment", problem.x_alignment},
           {"y_alignment", problem.y_alignment},
           {"in_place", std::int64_t{problem.in_place}}}};
}

}  // namespace tunesmith
