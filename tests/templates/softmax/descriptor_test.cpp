// The descriptors of the softmax family: normalization, arrays, keys.

#include <gtest/gtest.h>

#include <set>

#include "tests/support/cases.h"
#include "tunesmith/error.h"
#include "tunesmith/softmax.h"

namespace tunesmith {
namespace {

using test::normalized;
using test::softmax_ops;

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
