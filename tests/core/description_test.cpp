// A small problem that describes itself, and everything that reads its description.

#include "tunesmith/description.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tunesmith/error.h"

namespace tunesmith {

enum class Order : std::uint8_t { plain, swapped, mixed };
template <>
inline constexpr std::array<std::string_view, 3> enum_names<Order>{"plain", "swapped", "mixed"};

struct ScaleArrays {
  const void* x = nullptr;
  const void* shift = nullptr;
  void* y = nullptr;
};

struct ScaleProblem {
  using Arrays = ScaleArrays;

  std::int64_t rows = 0, cols = 1;
  DType dtype = DType::f32;
  std::optional<DType> out_dtype{};
  std::optional<std::int64_t> x_row_stride{};
  std::int64_t x_alignment = 16;
  double factor = 1;
  Order order = Order::plain;
  bool shift = false;
  std::optional<std::int64_t> shift_group{};
  std::optional<std::int64_t> window{};
  std::string code{};
  int steps = 8;

  static constexpr std::string_view op() noexcept { return "scale"; }
};

template <DescribedAs<ScaleProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const ScaleArrays& arrays, Visitor& v) {
  v.field("rows", p.rows, {.meaning = "number of rows", .range = {0}, .required = true});
  v.field("cols", p.cols, {.meaning = "number of columns", .range = {1, 1000}, .required = true});
  v.field("dtype", p.dtype, {.meaning = "element type of x", .choices = float_dtypes});
  v.field("out_dtype", p.out_dtype, {.meaning = "of y", .choices = float_dtypes, .follows = {"dtype", p.dtype}});
  v.field("x_row_stride", p.x_row_stride,
          {.meaning = "elements", .range = {p.cols}, .zero_too = true, .follows = {"cols", p.cols}});
  v.field("x_alignment", p.x_alignment, alignment_facts("bytes", p.dtype));
  v.option("factor", p.factor, {.meaning = "factor of x", .range = {0.5, 4.0}});
  v.option("order", p.order, {.meaning = "order of elements", .choices = one_of(Order::plain, Order::swapped)});
  v.option("shift", p.shift, {.meaning = "an array is added"});
  v.option(
      "shift_group", p.shift_group,
      {.meaning = "rows that share a shift", .range = {1}, .follows = {"rows", p.rows}, .only_with = {p.shift, "shift=1"}});
  v.option("window", p.window, {.meaning = "columns that count", .range = {0}});
  v.option("code", p.code, {.meaning = "source of a function"});
  v.option("steps", p.steps, {.meaning = "steps", .range = {8, 64}, .step = 8, .hidden = true});
  v.array(arrays.x, {.name = "x",
                     .dtype = p.dtype,
                     .shape = {size(p.rows), size(p.cols, 1)},
                     .strides = {p.x_row_stride.value_or(p.cols) + 1, 1},
                     .alignment = &p.x_alignment,
                     .meaning = "what is scaled"});
  v.array(arrays.shift, {.name = "shift", .dtype = DType::f32, .shape = {fixed(4), size(p.window, 7)}, .present = p.shift});
  v.array(arrays.y, {.name = "y", .role = Role::output, .dtype = p.out_dtype.value_or(p.dtype), .shape = {size(p.rows)}});
}

namespace {

Fields fields_of(const std::string& text) { return parse_fields(text, "problem"); }
ScaleProblem read(const std::string& text) { return read_problem(ScaleProblem{}, fields_of(text)); }
Problem normal_problem(const ScaleProblem& problem) {
  return {std::string(problem.op()), Description(problem).normal_form(description_of_defaults<ScaleProblem>())};
}

std::string normal(const std::string& text) { return normal_problem(read(text)).text(); }

std::string error_of(const std::string& text) {
  try {
    return "accepted as " + normal(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
}

TEST(Description, FieldsAreFilledInAndOptionsAtDefaultsAreLeftOut) {
  EXPECT_EQ(normal("rows=3,cols=5"), "scale rows=3,cols=5,dtype=f32,out_dtype=f32,x_row_stride=5,x_alignment=16");
  EXPECT_EQ(normal("cols=5,rows=3,factor=1,order=plain,shift=0,steps=8"), normal("rows=3,cols=5"));
  EXPECT_EQ(normal("rows=3,cols=5,dtype=bf16,x_row_stride=0,x_alignment=64,factor=2,order=swapped,shift=1,shift_group=2"),
            "scale rows=3,cols=5,dtype=bf16,out_dtype=bf16,x_row_stride=0,x_alignment=16,factor=2,order=swapped,shift=1,"
            "shift_group=2");
}

TEST(Description, WhatFollowsAnotherFieldIsLeftOutWhereItDoes) {
  EXPECT_EQ(normal("rows=3,cols=5,shift=1,shift_group=3"), normal("rows=3,cols=5,shift=1"));
  EXPECT_EQ(*read("rows=3,cols=5,shift=1").shift_group, 3);
}

TEST(Description, AbsentIsNotZero) {
  EXPECT_FALSE(read("rows=3,cols=5").window);
  EXPECT_EQ(*read("rows=3,cols=5,window=0").window, 0);
  EXPECT_EQ(normal("rows=3,cols=5,window=0"), normal("rows=3,cols=5") + ",window=0");
}

TEST(Description, NormalFormsAreRead) {
  for (const char* text : {"rows=3,cols=5", "rows=0,cols=1000,dtype=f16,out_dtype=f32,factor=0.5,code=a b",
                           "rows=3,cols=5,shift=1,shift_group=2,window=3,steps=16"}) {
    const Problem once = normal_problem(read(text));
    EXPECT_EQ(normal_problem(read_problem(ScaleProblem{}, once.fields)), once) << text;
  }
}

TEST(Description, ErrorsNameFieldValueAndWhatIsAllowed) {
  EXPECT_EQ(error_of("rows=3,cols=0"), "cols is 0; allowed: 1 to 1000");
  EXPECT_EQ(error_of("rows=3,cols=1001"), "cols is 1001; allowed: 1 to 1000");
  EXPECT_EQ(error_of("cols=1"), "rows is missing; scale needs rows and cols");
  EXPECT_EQ(error_of("rows=a,cols=1"), "rows is 'a'; expected an integer");
  EXPECT_EQ(error_of("rows=3,cols=5,dtype=i32"), "dtype is 'i32'; allowed: f32, f16, bf16");
  EXPECT_EQ(error_of("rows=3,cols=5,out_dtype=f64"), "out_dtype is 'f64'; allowed: f32, f16, bf16");
  EXPECT_EQ(error_of("rows=3,cols=5,dtype=f65"), "dtype is 'f65'; allowed: f32, f16, bf16");  // f64 is not allowed
  EXPECT_EQ(error_of("rows=3,cols=5,order=mixed"), "order is 'mixed'; allowed: plain, swapped");
  EXPECT_EQ(error_of("rows=3,cols=5,order=swaped"), "order is 'swaped'; allowed: plain, swapped; did you mean 'swapped'?");
  EXPECT_EQ(error_of("rows=3,cols=5,x_row_stride=4"), "x_row_stride is 4; allowed: 0, or at least 5");
  EXPECT_EQ(error_of("rows=3,cols=5,x_alignment=2"), "x_alignment is 2; allowed: a power of two from 4 up");
  EXPECT_EQ(error_of("rows=3,cols=5,factor=0.25"), "factor is 0.25; allowed: 0.5 to 4");
  EXPECT_EQ(error_of("rows=3,cols=5,factor=nan"), "factor is nan; allowed: 0.5 to 4");
  EXPECT_EQ(error_of("rows=3,cols=5,shift=2"), "shift is 2; allowed: 0 to 1");
  EXPECT_EQ(error_of("rows=3,cols=5,shift_group=1"), "shift_group is 1; allowed: only with shift=1");
  EXPECT_EQ(error_of("rows=3,cols=5,steps=12"), "steps is 12; allowed: 8 to 64 in steps of 8");
  EXPECT_EQ(error_of("rows=3,cols=5,steps=99999999999"), "steps is 99999999999; allowed: 8 to 64 in steps of 8");
  EXPECT_NE(error_of("rows=3,cols=5,factr=2").find("did you mean 'factor'?"), std::string::npos);
  EXPECT_NE(
      error_of("rows=9000000000000000000,cols=5").find("x would span more than 2^56 bytes: rows is 9000000000000000000"),
      std::string::npos)
      << error_of("rows=9000000000000000000,cols=5");
}

TEST(Description, ATypedProblemSaysWhatIsGiven) {
  ScaleProblem problem;
  problem.rows = 3;
  problem.cols = 5;
  EXPECT_EQ(to_problem(problem).text(), "scale rows=3,cols=5,dtype=f32,x_alignment=16");
  problem.shift_group = 2;  // without shift: given all the same, for the check to see
  problem.order = Order::swapped;
  EXPECT_EQ(to_problem(problem).text(), "scale rows=3,cols=5,dtype=f32,x_alignment=16,order=swapped,shift_group=2");
  EXPECT_THROW(read_problem(ScaleProblem{}, to_problem(problem).fields), Error);
}

TEST(Description, ArraysComeInOrderWithTheNamesOfTheirExtents) {
  const ScaleProblem problem = read("rows=3,cols=5,dtype=f16,out_dtype=f32,x_alignment=8");
  const std::vector<ArrayInfo> arrays = Description(problem).array_infos();
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].name, "x");
  EXPECT_TRUE(arrays[0].input && !arrays[0].output);
  EXPECT_EQ(arrays[0].shape, (std::vector<std::int64_t>{3, 6}));
  EXPECT_EQ(arrays[0].dims, (std::vector<std::string>{"rows", "cols + 1"}));
  EXPECT_EQ(arrays[0].strides, (std::vector<std::int64_t>{6, 1}));
  EXPECT_EQ(arrays[0].alignment, 8);
  EXPECT_EQ(arrays[1].dtype, DType::f32);
  EXPECT_EQ(arrays[1].alignment, 4);
  EXPECT_TRUE(!arrays[1].input && arrays[1].output);
  const std::vector<ArrayInfo> layouts = Description(problem).array_layouts();
  ASSERT_EQ(layouts.size(), arrays.size());
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    EXPECT_TRUE(layouts[i].dims.empty() && layouts[i].alignment_field.empty()) << layouts[i].name;
    EXPECT_EQ(layouts[i].name, arrays[i].name);
    EXPECT_EQ(layouts[i].shape, arrays[i].shape);
    EXPECT_EQ(layouts[i].strides, arrays[i].strides);
    EXPECT_EQ(layouts[i].alignment, arrays[i].alignment);
  }
  const std::vector<ArrayInfo> all = Description(problem).array_infos(true);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_FALSE(all[1].present);
  EXPECT_EQ(all[1].dims, (std::vector<std::string>{"4", "window"}));
}

TEST(Description, AShapeTellsFields) {
  const ScaleProblem problem;
  const Description description(problem);
  const std::int64_t shape[] = {7, 33}, vector[] = {9};
  EXPECT_EQ(description.infer("x", shape), fields_of("rows=7,cols=32"));
  EXPECT_EQ(description.infer("shift", shape), fields_of("window=33"));
  EXPECT_EQ(description.infer("y", vector), fields_of("rows=9"));
  EXPECT_TRUE(description.infer("y", shape).empty());
  EXPECT_TRUE(description.infer("z", shape).empty());
}

TEST(Description, HelpKnowsKindsDefaultsAndRanges) {
  const ScaleProblem problem;
  const std::vector<FieldInfo> infos = Description(problem).field_infos();
  ASSERT_EQ(infos.size(), 13u);
  EXPECT_EQ(infos[0].default_text, "");
  EXPECT_EQ(infos[1].range_text, "1 to 1000");
  EXPECT_EQ(infos[2].default_text, "f32");
  EXPECT_EQ(infos[2].choices, (std::vector<std::string_view>{"f32", "f16", "bf16"}));
  EXPECT_EQ(infos[3].default_text, "dtype");
  EXPECT_EQ(infos[4].default_text, "cols");
  EXPECT_TRUE(infos[6].kind == FieldKind::real && infos[6].option && !infos[0].option);
  EXPECT_EQ(infos[7].choices, (std::vector<std::string_view>{"plain", "swapped"}));
  EXPECT_TRUE(infos[8].kind == FieldKind::flag);
  EXPECT_EQ(infos[10].default_text, "none");
  EXPECT_TRUE(infos[11].text);
  EXPECT_TRUE(infos[12].hidden && !infos[0].hidden);
}

/// The message of reading a problem from its generic form, or its normal form.
std::string read_generic(const ScaleProblem& problem) try {
  return normal_problem(read_problem(ScaleProblem{}, to_problem(problem).fields)).text();
} catch (const Error& error) {
  return error.what();
}

/// The same without the generic form.
std::string read_typed(ScaleProblem problem) try {
  {
    Description description(problem);
    description.check_as_given(description_of_defaults<ScaleProblem>());
    description.resolve();
  }
  Description(problem).check_extents();
  return normal_problem(problem).text();
} catch (const Error& error) {
  return error.what();
}

TEST(CheckAsGiven, AgreesWithTheGenericForm) {
  const std::initializer_list<void (*)(ScaleProblem&)> changes{[](auto&) {},
                                                               [](auto& p) { p.rows = -1; },
                                                               [](auto& p) { p.cols = 0; },
                                                               [](auto& p) { p.cols = 1001; },
                                                               [](auto& p) { p.dtype = DType::i64; },
                                                               [](auto& p) { p.dtype = static_cast<DType>(99); },
                                                               [](auto& p) { p.out_dtype = DType::f16; },
                                                               [](auto& p) { p.x_row_stride = 3; },
                                                               [](auto& p) { p.x_row_stride = 0; },
                                                               [](auto& p) { p.x_alignment = 64; },
                                                               [](auto& p) { p.x_alignment = 3; },
                                                               [](auto& p) { p.factor = 5; },
                                                               [](auto& p) { p.factor = std::nan(""); },
                                                               [](auto& p) { p.order = static_cast<Order>(70); },
                                                               [](auto& p) { p.shift_group = 2; },
                                                               [](auto& p) { p.shift = true, p.shift_group = 2; },
                                                               [](auto& p) { p.shift = true; },
                                                               [](auto& p) { p.window = -1; },
                                                               [](auto& p) { p.code = "f(x)"; },
                                                               [](auto& p) { p.steps = 9; },
                                                               [](auto& p) { p.rows = std::int64_t{1} << 60; }};
  int errors = 0;
  for (const auto& change : changes) {
    ScaleProblem problem{.rows = 8, .cols = 16};
    change(problem);
    const std::string generic = read_generic(problem);
    EXPECT_EQ(read_typed(problem), generic);
    if (!generic.starts_with("scale ")) ++errors;
  }
  EXPECT_GE(errors, 10);
}

}  // namespace
}  // namespace tunesmith
