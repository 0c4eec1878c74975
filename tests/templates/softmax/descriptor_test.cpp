// The descriptors of the softmax family: normalization, errors, arrays, keys.

#include <gtest/gtest.h>

#include <set>

#include "tests/templates/softmax/cases.h"
#include "tunesmith/error.h"
#include "tunesmith/softmax.h"

namespace tunesmith {
namespace {

using test::normalized;
using test::softmax_ops;

std::string error_of(std::string_view op, const std::string& fields) {
  try {
    const Problem accepted = normalized(op, fields);
    ADD_FAILURE() << fields << " was accepted as " << accepted.text();
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
}

void expect_error(std::string_view op, const std::string& fields, std::initializer_list<const char*> parts) {
  const std::string message = error_of(op, fields);
  for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << op << " " << fields << ": " << message;
}

TEST(SoftmaxNormalize, FillsInDefaultsOnce) {
  const char* const forward =
      " rows=3,cols=5,dtype=f32,out_dtype=f32,x_row_stride=5,y_row_stride=5,x_alignment=16,y_alignment=16,in_place=0";
  const char* const backward =
      " rows=3,cols=5,dtype=f32,out_dtype=f32,dy_row_stride=5,y_row_stride=5,dx_row_stride=5,dy_alignment=16,y_alignment=16,"
      "dx_alignment=16,in_place=0";
  for (const std::string_view op : softmax_ops) {
    const Problem full = normalized(op, "rows=3,cols=5");
    EXPECT_EQ(full.text(), std::string(op) + (op.ends_with("backward") ? backward : forward));
    EXPECT_EQ(find_op(op).normalize(full), full);
  }
}

// float32 has no 1e30: its nearest number is larger.
TEST(SoftmaxNormalize, TheLimitsOfScaleAreNormal) {
  for (const std::string_view op : softmax_ops)
    for (const char* dtype : {"f32", "bf16", "f64"})
      for (const char* scale : {"1e30", "1e-30"}) {
        const std::string fields = std::string("rows=3,cols=5,dtype=") + dtype + ",scale=" + scale;
        const Problem normal = normalized(op, fields);
        EXPECT_EQ(find_op(op).normalize(normal), normal) << fields;
      }
}

TEST(SoftmaxNormalize, TypedProblemsHaveTheSameFields) {
  for (const bool logarithm : {false, true}) {
    SoftmaxProblem forward = SoftmaxProblem::contiguous(3, 5, DType::bf16);
    SoftmaxBackwardProblem backward = SoftmaxBackwardProblem::contiguous(3, 5, DType::bf16);
    forward.logarithm = backward.logarithm = logarithm;
    const Op& forward_op = find_op(logarithm ? "log_softmax" : "softmax");
    const Op& backward_op = find_op(logarithm ? "log_softmax_backward" : "softmax_backward");
    EXPECT_EQ(forward_op.normalize(to_problem(forward)), normalized(forward_op.name(), "rows=3,cols=5,dtype=bf16"));
    EXPECT_EQ(backward_op.normalize(to_problem(backward)), normalized(backward_op.name(), "rows=3,cols=5,dtype=bf16"));

    forward.options.scale = backward.options.scale = 0.25;
    forward.options.causal = backward.options.causal = true;
    forward.options.safe = backward.options.safe = true;
    forward.options.valid_cols = backward.options.valid_cols = true;
    forward.options.valid_cols_group = backward.options.valid_cols_group = 3;
    const std::string options = "rows=3,cols=5,dtype=bf16,scale=0.25,causal=1,valid_cols=1,valid_cols_group=3,safe=1";
    EXPECT_EQ(forward_op.normalize(to_problem(forward)), normalized(forward_op.name(), options));
    EXPECT_EQ(backward_op.normalize(to_problem(backward)), normalized(backward_op.name(), options));

    forward.options.mask.kind = SoftmaxMask::Kind::add;
    forward.options.mask.dtype = DType::f32;
    forward.options.mask.inner = 2;
    forward.options.mask.middle = 4;
    forward.options.mask.row_stride = 0;
    forward.options.mask.middle_stride = 5;
    forward.options.mask.outer_stride = 20;
    forward.options.mask.alignment = 4;
    EXPECT_EQ(
        forward_op.normalize(to_problem(forward)),
        normalized(forward_op.name(), options + ",mask=add,mask_dtype=f32,mask_inner=2,mask_middle=4,mask_row_stride=0,"
                                                "mask_middle_stride=5,mask_outer_stride=20,mask_alignment=4"));
    backward.options.mask.kind = SoftmaxMask::Kind::keep;
    EXPECT_EQ(backward_op.normalize(to_problem(backward)), normalized(backward_op.name(), options + ",mask=keep"));
  }
}

TEST(SoftmaxNormalize, OmitsOptionsWithDefaultValues) {
  for (const std::string_view op : softmax_ops) {
    const Problem plain = normalized(op, "rows=6,cols=5");
    EXPECT_EQ(normalized(op, "rows=6,cols=5,scale=1,causal=0,valid_cols=0,mask=none,safe=0"), plain);
    const Problem masked = normalized(op, "rows=6,cols=5,mask=keep");
    EXPECT_EQ(normalized(op,
                         "rows=6,cols=5,mask=keep,mask_inner=6,mask_middle=1,mask_row_stride=5,mask_middle_stride=0,"
                         "mask_outer_stride=0,mask_alignment=16"),
              masked);
    EXPECT_EQ(normalized(op, "rows=6,cols=5,mask=keep,mask_inner=100"), masked);
    EXPECT_EQ(normalized(op, "rows=6,cols=5,mask=keep,mask_alignment=256"), masked);  // no access is wider than 16 bytes
    EXPECT_NE(normalized(op, "rows=6,cols=5,mask=keep,mask_row_stride=0"), masked);
    for (const char* options : {"scale=0.1", "causal=1", "valid_cols=1,valid_cols_group=2",
                                "mask=keep,mask_inner=3,mask_middle=2", "mask=keep,mask_row_stride=0", "safe=1"}) {
      const Problem with = normalized(op, std::string("rows=6,cols=5,") + options);
      EXPECT_NE(with, plain) << options;
      EXPECT_EQ(find_op(op).normalize(with), with) << options;
      EXPECT_EQ(normalized(op, with.fields.text()), with) << options;
    }
  }
}

TEST(SoftmaxNormalize, ErrorsNameFieldValueAndAllowedValues) {
  for (const std::string_view op : softmax_ops) {
    expect_error(op, "cols=5", {"rows", "missing"});
    expect_error(op, "rows=-1,cols=5", {"rows", "-1", "at least 0"});
    expect_error(op, "rows=1,cols=-1", {"cols", "-1;", "0 to"});
    expect_error(op, "rows=1,cols=4294967296", {"cols", "4294967296", "2147483647"});
    expect_error(op, "rows=4611686018427387904,cols=2147483647", {"rows", "4611686018427387904", "2^56"});
    expect_error(op, "rows=1,cols=8,dtype=f128", {"dtype", "'f128'", "f32, f16, bf16"});
    expect_error(op, "rows=1,cols=8,dtype=i32", {"dtype", "'i32'", "f32, f16, bf16"});
    expect_error(op, "rows=1,cols=8,out_dtype=u8", {"out_dtype", "'u8'", "f32, f16, bf16"});
    expect_error(op, "rows=1,cols=8,y_row_stride=7", {"y_row_stride", "7", "8"});
    expect_error(op, "rows=1,cols=8,y_row_stride=-8", {"y_row_stride", "-8"});
    expect_error(op, "rows=1,cols=8,y_alignment=3", {"y_alignment", "3", "power of two from 4"});
    expect_error(op, "rows=1,cols=8,y_alignment=2", {"y_alignment", "2", "power of two from 4"});
    expect_error(op, "rows=1,cols=8,in_place=1,dtype=f32,out_dtype=bf16", {"in_place", "f32", "bf16"});
    expect_error(op, "rows=1,cols=8,in_place=2", {"in_place", "2", "0 to 1"});
    if (!op.ends_with("backward"))  // rows would share memory; there, y is an input
      expect_error(op, "rows=1,cols=8,y_row_stride=0", {"y_row_stride", "0", "at least 8"});
    else
      expect_error(op, "rows=1,cols=8,dx_row_stride=0", {"dx_row_stride", "0", "at least 8"});
    expect_error(op, "rows=1,cols=8,colour=red", {"colour", std::string(op).c_str(), "rows, cols, dtype"});
    expect_error(op, "rows=1,cols=8,dtyp=f16", {"dtyp", "did you mean 'dtype'"});
    expect_error(op, "rows=x,cols=8", {"rows", "'x'", "integer"});
    const bool backward = op.ends_with("backward");
    expect_error(op, backward ? "rows=1,cols=8,x_alignment=4" : "rows=1,cols=8,dx_alignment=4",
                 {"_alignment' is not a field of", "Allowed: rows"});
    expect_error(op, backward ? "rows=1,cols=8,in_place=1,dx_row_stride=9" : "rows=1,cols=8,in_place=1,x_row_stride=9",
                 {"in_place", backward ? "dx" : "x", "9", "8"});
    expect_error(op, backward ? "rows=1,cols=8,dx_row_stride=7" : "rows=1,cols=8,x_row_stride=7",
                 {"x_row_stride", "7", "8"});
  }
}

TEST(SoftmaxNormalize, ErrorsOfOptionsNameFieldValueAndAllowedValues) {
  for (const std::string_view op : softmax_ops) {
    const auto expect = [&](const std::string& options, std::initializer_list<const char*> parts) {
      expect_error(op, "rows=6,cols=8," + options, parts);
    };
    for (const char* scale : {"0", "-1", "1e31", "1e-31", "nan", "inf"})
      expect(std::string("scale=") + scale, {"scale", "1e-30", "1e+30"});
    expect("scale=big", {"scale", "'big'", "number"});
    expect("causal=2", {"causal", "2", "0 to 1"});
    expect("valid_cols=-1", {"valid_cols", "-1", "0 to 1"});
    expect("valid_cols=1,valid_cols_group=0", {"valid_cols_group", "0", "at least 1"});
    expect("valid_cols_group=4", {"valid_cols_group is 4", "only with valid_cols=1"});
    expect("safe=7", {"safe", "7", "0 to 1"});
    expect("mask=triangle", {"mask", "'triangle'", "none", "keep"});
    expect("mask=keep,mask_inner=-1", {"mask_inner", "-1", "at least 1"});
    expect("mask=keep,mask_inner=0", {"mask_inner", "0", "at least 1"});
    expect("mask=keep,mask_middle=0", {"mask_middle", "0", "at least 1"});
    expect("mask=keep,mask_row_stride=-8", {"mask_row_stride", "-8", "0 to"});
    expect("mask=keep,mask_middle_stride=-1", {"mask_middle_stride", "-1", "0 to"});
    expect("mask=keep,mask_outer_stride=-1", {"mask_outer_stride", "-1", "0 to"});
    expect("mask=keep,mask_row_stride=9000000000000000000", {"mask_row_stride", "9000000000000000000"});
    expect("mask=keep,mask_alignment=3", {"mask_alignment", "3", "power of two from 1"});
    for (const char* field : {"mask_inner=3", "mask_middle=2", "mask_row_stride=8", "mask_middle_stride=8",
                              "mask_outer_stride=8", "mask_alignment=8"})
      expect(field, {"mask_", "only with mask=", "keep"});
    expect_error(op, "rows=100000000,cols=8,mask=keep,mask_row_stride=1000000000000", {"mask", "1000000000000", "2^56"});
    if (op.ends_with("backward")) {
      expect("mask=add", {"mask", "'add'", "keep"});
      expect("mask=keep,mask_dtype=f16", {"mask_dtype"});
    } else {
      expect("mask=add,mask_dtype=u8", {"mask_dtype", "'u8'", "f32, f16, bf16"});
      expect("mask=keep,mask_dtype=f16", {"mask_dtype", "f16", "only with mask=add"});
      expect("mask=add,mask_alignment=2", {"mask_alignment", "2", "power of two from 4"});
    }
  }
}

TEST(SoftmaxArrays, HaveTheDocumentedOrder) {
  const auto names = [](std::string_view op, const std::string& fields) {
    std::string text;
    for (const ArrayInfo& info : find_op(op).parse(normalized(op, fields))->arrays())
      text += info.name + ":" + std::string(name(info.dtype)) + (info.input ? "<" : "") + (info.output ? ">" : "") + " ";
    return text;
  };
  for (const char* op : {"softmax", "log_softmax"}) {
    EXPECT_EQ(names(op, "rows=6,cols=8,dtype=bf16,out_dtype=f32"), "x:bf16< y:f32> ");
    EXPECT_EQ(names(op, "rows=6,cols=8,dtype=f16,mask=add"), "x:f16< y:f16> mask:f16< ");
    EXPECT_EQ(names(op, "rows=6,cols=8,mask=keep,valid_cols=1"), "x:f32< y:f32> mask:u8< valid_cols:i32< ");
  }
  for (const char* op : {"softmax_backward", "log_softmax_backward"}) {
    EXPECT_EQ(names(op, "rows=6,cols=8,dtype=bf16,out_dtype=f32"), "dy:bf16< y:bf16< dx:f32> ");
    EXPECT_EQ(names(op, "rows=6,cols=8,mask=keep,valid_cols=1"), "dy:f32< y:f32< dx:f32> mask:u8< valid_cols:i32< ");
  }
}

TEST(SoftmaxArrays, ExtentsOfMasksAndLengths) {
  const auto array = [](const std::string& options, const char* wanted) -> ArrayInfo {
    for (ArrayInfo& info : find_op("softmax").parse(normalized("softmax", "rows=24,cols=10," + options))->arrays())
      if (info.name == wanted) return std::move(info);
    ADD_FAILURE() << options;
    return {};
  };
  const auto extent = [&](const std::string& options) { return array("mask=keep" + options, "mask").extent_bytes(); };
  EXPECT_EQ(extent(""), 24 * 10);
  EXPECT_EQ(extent(",mask_row_stride=0"), 10);
  EXPECT_EQ(extent(",mask_row_stride=16"), 23 * 16 + 10);
  // (batch 2, heads 3, queries 4): the same for all heads, for all batches, and all different.
  EXPECT_EQ(extent(",mask_inner=4,mask_middle=3,mask_outer_stride=40"), 2 * 40);
  EXPECT_EQ(extent(",mask_inner=4,mask_middle=3,mask_middle_stride=40"), 3 * 40);
  EXPECT_EQ(extent(",mask_inner=4,mask_middle=3,mask_middle_stride=40,mask_outer_stride=120"), 6 * 40);
  EXPECT_EQ(array("mask=add,mask_dtype=bf16", "mask").extent_bytes(), 24 * 10 * 2);
  EXPECT_EQ(array("valid_cols=1", "valid_cols").extent_bytes(), 24 * 4);
  EXPECT_EQ(array("valid_cols=1,valid_cols_group=5", "valid_cols").extent_bytes(), 5 * 4);
}

TEST(SoftmaxKey, RowsAreBucketedAndAlignmentIsAClass) {
  const auto key = [](const std::string& fields) { return find_op("softmax").parse(normalized("softmax", fields))->key(); };
  EXPECT_EQ(key("rows=3072,cols=1000").rows_bucket, key("rows=2049,cols=1000").rows_bucket);
  EXPECT_EQ(key("rows=4096,cols=1000").rows_bucket, key("rows=3073,cols=1000").rows_bucket);
  EXPECT_NE(key("rows=3073,cols=1000").rows_bucket, key("rows=3072,cols=1000").rows_bucket);
  EXPECT_NE(key("rows=4096,cols=1000").rows_bucket, key("rows=4097,cols=1000").rows_bucket);
  EXPECT_EQ(key("rows=70000,cols=1000").rows_bucket, key("rows=7000000,cols=1000").rows_bucket);
  EXPECT_EQ(key("rows=4,cols=1000").problem_class, key("rows=9,cols=1000,x_row_stride=1008").problem_class);
  EXPECT_NE(key("rows=4,cols=1000").problem_class, key("rows=4,cols=1000,x_row_stride=1001").problem_class);
  EXPECT_NE(key("rows=4,cols=1000").problem_class, key("rows=4,cols=1000,x_alignment=4").problem_class);
  EXPECT_NE(key("rows=4,cols=1000").problem_class, key("rows=4,cols=1000,in_place=1").problem_class);
  EXPECT_NE(key("rows=4,cols=1000").problem_class, key("rows=4,cols=1000,dtype=bf16").problem_class);
  EXPECT_NE(key("rows=4,cols=1000,dtype=bf16").problem_class,
            key("rows=4,cols=1000,dtype=bf16,out_dtype=f32").problem_class);
}

TEST(SoftmaxKey, OptionsThatChangeTheKernelChangeTheKey) {
  for (const std::string_view op : softmax_ops) {
    const auto problem_class = [&](const std::string& options) {
      return find_op(op).parse(normalized(op, "rows=64,cols=1000" + options))->key().problem_class;
    };
    std::set<std::string> seen;
    for (const char* options : {"", ",scale=0.125", ",causal=1", ",valid_cols=1", ",mask=keep", ",safe=1",
                                ",mask=keep,mask_alignment=1", ",mask=keep,mask_row_stride=0", ",causal=1,safe=1"})
      EXPECT_TRUE(seen.insert(problem_class(options)).second) << op << " " << options << ": " << problem_class(options);
    if (!op.ends_with("backward")) {
      for (const char* options : {",mask=add", ",mask=add,mask_dtype=bf16", ",mask=add,mask_row_stride=0"})
        EXPECT_TRUE(seen.insert(problem_class(options)).second) << op << " " << options << ": " << problem_class(options);
    }
    // Options that only change launch parameters do not change the key.
    EXPECT_EQ(problem_class(",scale=0.125"), problem_class(",scale=3.7"));
    EXPECT_EQ(problem_class(",valid_cols=1"), problem_class(",valid_cols=1,valid_cols_group=8"));
    EXPECT_EQ(problem_class(",mask=keep"), problem_class(",mask=keep,mask_inner=4,mask_middle=2,mask_outer_stride=4000"));
  }
}

TEST(SoftmaxCost, CountsMinimumTraffic) {
  const auto cost = [](std::string_view op, const std::string& fields) {
    return find_op(op).parse(normalized(op, fields))->cost();
  };
  EXPECT_EQ(cost("softmax", "rows=100,cols=1000").bytes(), 8e5);
  EXPECT_EQ(cost("softmax", "rows=100,cols=1000,dtype=bf16,out_dtype=f32").bytes_read, 2e5);
  EXPECT_EQ(cost("softmax_backward", "rows=100,cols=1000").bytes(), 12e5);
  EXPECT_EQ(cost("log_softmax", "rows=100,cols=1000,mask=keep").bytes(), 9e5);
  EXPECT_EQ(cost("log_softmax", "rows=100,cols=1000,mask=keep,mask_row_stride=0").bytes(), 8e5 + 1e3);
  EXPECT_EQ(cost("softmax", "rows=0,cols=1000").bytes(), 0);
}

TEST(Registry, UnknownOpListsWhatExists) {
  try {
    find_op("softmix");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(
        std::string(error.what()).find("'softmix'; allowed: softmax, log_softmax, softmax_backward, log_softmax_backward"),
        std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tunesmith
