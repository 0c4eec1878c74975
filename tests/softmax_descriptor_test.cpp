// The softmax descriptor: normalization, errors, keys, configurations, geometry.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "templates/op.h"
#include "templates/render.h"
#include "tunesmith/error.h"
#include "tunesmith/softmax.h"

namespace tunesmith {
namespace {

const Op& op() { return find_op("softmax"); }
Problem problem(const std::string& fields) { return {"softmax", parse_fields(fields, "problem")}; }
Problem normal(const std::string& fields) { return op().normalize(problem(fields)); }
DeviceInfo h100() { return generic_device({9, 0, 'a'}); }

std::string error_of(const std::string& fields) {
  try {
    normal(fields);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  ADD_FAILURE() << fields << " was accepted";
  return {};
}

TEST(SoftmaxNormalize, FillsInDefaultsOnce) {
  const Problem full = normal("rows=3,cols=5");
  EXPECT_EQ(full.text(),
            "softmax rows=3,cols=5,dtype=f32,out_dtype=f32,x_row_stride=5,y_row_stride=5,x_alignment=16,y_alignment=16,"
            "in_place=0");
  EXPECT_EQ(op().normalize(full), full);
  EXPECT_EQ(op().normalize(to_problem(SoftmaxProblem::contiguous(3, 5, DType::f32))), full);
}

TEST(SoftmaxNormalize, ErrorsNameFieldValueAndWhatIsAllowed) {
  const auto expect = [](const std::string& fields, std::initializer_list<const char*> parts) {
    const std::string message = error_of(fields);
    for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << fields << ": " << message;
  };
  expect("cols=5", {"rows", "missing"});
  expect("rows=-1,cols=5", {"rows", "-1", "0 to"});
  expect("rows=1,cols=0", {"cols", " 0;", "1 to"});
  expect("rows=1,cols=4294967296", {"cols", "4294967296", "2147483647"});
  expect("rows=4611686018427387904,cols=2147483647", {"rows", "4611686018427387904", "2^56"});
  expect("rows=1,cols=8,dtype=f64", {"dtype", "'f64'", "f32, f16, bf16"});
  expect("rows=1,cols=8,out_dtype=int", {"out_dtype", "'int'", "f32, f16, bf16"});
  expect("rows=1,cols=8,x_row_stride=7", {"x_row_stride", "7", "8"});
  expect("rows=1,cols=8,y_row_stride=-8", {"y_row_stride", "-8"});
  expect("rows=1,cols=8,x_alignment=3", {"x_alignment", "3", "power of two from 4"});
  expect("rows=1,cols=8,x_alignment=2", {"x_alignment", "2", "power of two from 4"});
  expect("rows=1,cols=8,in_place=1,dtype=f32,out_dtype=bf16", {"in_place", "f32", "bf16"});
  expect("rows=1,cols=8,in_place=2", {"in_place", "2", "0 to 1"});
  expect("rows=1,cols=8,colour=red", {"colour", "rows, cols, dtype"});
  expect("rows=x,cols=8", {"rows", "'x'", "integer"});
}

TEST(SoftmaxKey, RowsAreBucketedAndAlignmentIsAClass) {
  const auto key = [](const std::string& fields) { return op().key(normal(fields)); };
  EXPECT_EQ(key("rows=4096,cols=1000").rows_bucket, key("rows=2049,cols=1000").rows_bucket);
  EXPECT_NE(key("rows=4096,cols=1000").rows_bucket, key("rows=4097,cols=1000").rows_bucket);
  EXPECT_EQ(key("rows=70000,cols=1000").rows_bucket, key("rows=7000000,cols=1000").rows_bucket);
  EXPECT_EQ(key("rows=4,cols=1000").semantics, key("rows=9,cols=1000,x_row_stride=1008").semantics);
  EXPECT_NE(key("rows=4,cols=1000").semantics, key("rows=4,cols=1000,x_row_stride=1001").semantics);
  EXPECT_NE(key("rows=4,cols=1000").semantics, key("rows=4,cols=1000,x_alignment=4").semantics);
  EXPECT_NE(key("rows=4,cols=1000").semantics, key("rows=4,cols=1000,in_place=1").semantics);
  EXPECT_NE(key("rows=4,cols=1000").semantics, key("rows=4,cols=1000,dtype=bf16").semantics);
  EXPECT_NE(key("rows=4,cols=1000,dtype=bf16").semantics, key("rows=4,cols=1000,dtype=bf16,out_dtype=f32").semantics);
}

const char* const shapes[] = {
    "rows=4096,cols=1",
    "rows=4096,cols=37",
    "rows=4096,cols=128,dtype=bf16",
    "rows=4096,cols=781",
    "rows=4096,cols=1024",
    "rows=1,cols=1024,dtype=f16,out_dtype=f32",
    "rows=4096,cols=8192,in_place=1",
    "rows=4096,cols=32000,dtype=bf16",
    "rows=4096,cols=50257",
    "rows=16,cols=262144,dtype=f16",
    "rows=1,cols=1048576",
    "rows=0,cols=64",
};
const char* const archs[] = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"};

TEST(SoftmaxSpace, EveryCandidateIsValidDistinctAndWellFormedAndTheDefaultComesFirst) {
  for (const char* fields : shapes)
    for (const char* arch : archs)
      for (const Effort effort : {Effort::quick, Effort::full}) {
        const Problem p = normal(fields);
        const DeviceInfo device = generic_device(parse_arch(arch));
        const std::vector<Config> space = op().search_space(p, device, effort);
        SCOPED_TRACE(std::string(fields) + " " + arch);
        ASSERT_FALSE(space.empty());
        EXPECT_EQ(space.front(), op().default_config(p, device));
        EXPECT_LE(space.size(), effort == Effort::quick ? 32U : 400U);
        std::set<std::string> texts;
        for (const Config& config : space) {
          EXPECT_EQ(op().why_invalid(p, device, config), "") << config.text();
          EXPECT_TRUE(texts.insert(config.text()).second) << config.text();
          EXPECT_EQ(op().complete_config(p, device, config), config);
          EXPECT_EQ(Config{parse_fields(config.text(), "config")}, config);
        }
      }
}

TEST(SoftmaxSpace, QuickIsPartOfFullInGeometry) {
  for (const char* fields : shapes) {
    const Problem p = normal(fields);
    const auto full = op().search_space(p, h100(), Effort::full);
    std::size_t found = 0;
    const auto quick = op().search_space(p, h100(), Effort::quick);
    for (const Config& config : quick) found += std::ranges::find(full, config) != full.end();
    EXPECT_EQ(found, quick.size()) << fields;
  }
}

TEST(SoftmaxSpace, AllVariantsAreOfferedWhereTheyFit) {
  const auto variants = [](const char* fields) {
    std::set<std::string> names;
    for (const Config& config : op().search_space(normal(fields), h100(), Effort::full)) names.insert(config.variant());
    return names;
  };
  EXPECT_EQ(variants("rows=4096,cols=1024"), (std::set<std::string>{"warp", "block", "online"}));
  EXPECT_EQ(variants("rows=4096,cols=65536"), (std::set<std::string>{"hybrid", "online"}));
  EXPECT_EQ(variants("rows=4096,cols=32768"), (std::set<std::string>{"block", "hybrid", "online"}));
  EXPECT_EQ(variants("rows=4096,cols=1048576"), (std::set<std::string>{"online"}));
}

TEST(SoftmaxSpace, NeverReadsThroughTheReadOnlyPathInPlace) {
  for (const Config& config : op().search_space(normal("rows=4096,cols=1024,in_place=1"), h100(), Effort::full))
    EXPECT_EQ(config.text().find("no_allocate"), std::string::npos);
}

TEST(SoftmaxConfig, PartialOnesAreCompletedAndWrongOnesExplained) {
  const Problem p = normal("rows=4096,cols=8192");
  const auto complete = [&](const std::string& text) {
    return op().complete_config(p, h100(), Config{parse_fields(text, "config")}).text();
  };
  EXPECT_NE(complete("variant=online").find("variant=online,threads="), std::string::npos);
  EXPECT_NE(complete("threads=1024").find("threads=1024"), std::string::npos);
  const auto error = [&](const std::string& text) -> std::string {
    try {
      return "accepted: " + complete(text);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      return e.what();
    }
  };
  EXPECT_NE(error("variant=fast").find("warp, block, hybrid, online"), std::string::npos) << error("variant=fast");
  EXPECT_NE(error("threads=100").find("'100'"), std::string::npos) << error("threads=100");
  EXPECT_NE(error("threads=2048").find("32 to 1024"), std::string::npos) << error("threads=2048");
  EXPECT_NE(error("thread=64").find("'thread'"), std::string::npos) << error("thread=64");
  EXPECT_NE(error("load=fast").find("evict_last"), std::string::npos) << error("load=fast");
  EXPECT_NE(error("variant=warp").find("registers"), std::string::npos) << error("variant=warp");
  EXPECT_NE(error("variant=block,unroll=4").find("unroll"), std::string::npos) << error("variant=block,unroll=4");
}

TEST(SoftmaxConfig, GarbageFromACacheIsInvalidNotFatal) {
  const Problem p = normal("rows=4096,cols=8192");
  for (const char* text : {"", "variant=block", "variant=7", "threads=x", "variant=online,threads=512,unroll=4,load=1",
                           "variant=block,threads=99999999999,min_blocks=1,registers=float32,load=plain,store=plain"})
    EXPECT_NE(op().why_invalid(p, h100(), Config{parse_fields(text, "config")}), "") << text;
}

TEST(SoftmaxConfig, EvictionPoliciesNeedSm80) {
  const Problem p = normal("rows=4096,cols=8192");
  const Config config{parse_fields("variant=online,threads=512,unroll=4,load=evict_last,load_again=plain,store=plain", "c")};
  EXPECT_EQ(op().why_invalid(p, h100(), config), "");
  EXPECT_NE(op().why_invalid(p, generic_device({7, 5, 0}), config).find("sm_80"), std::string::npos);
}

TEST(SoftmaxLaunch, GridCoversEveryRowOnceAndFoldsWhenItMust) {
  const auto plan = [](const std::string& fields, const std::string& config) {
    const Problem p = normal(fields);
    return op().launch_plan(p, op().complete_config(p, h100(), Config{parse_fields(config, "c")}), h100());
  };
  const LaunchPlan warp = plan("rows=1000,cols=64", "variant=warp,lanes=8,threads=128");
  ASSERT_EQ(warp.kernels.size(), 1U);
  EXPECT_EQ(warp.kernels[0].grid.x, 63U);  // 16 rows a block
  EXPECT_EQ(warp.kernels[0].block.x, 128U);
  EXPECT_TRUE(plan("rows=0,cols=64", "").kernels.empty());
  const LaunchPlan folded = plan("rows=5000000000,cols=2048", "variant=block");
  const Dim3 grid = folded.kernels[0].grid;
  EXPECT_GT(grid.y, 1U);
  EXPECT_LE(grid.x, 2147483647U);
  EXPECT_GE(grid.count(), 5000000000U);
  EXPECT_LT(grid.count(), 5000000000U + grid.y);
}

TEST(SoftmaxLaunch, PointersCarryAlignmentAndExtent) {
  const Problem p = normal("rows=10,cols=64,dtype=bf16,y_row_stride=100,x_alignment=4");
  const LaunchPlan plan = op().launch_plan(p, op().default_config(p, h100()), h100());
  ASSERT_EQ(plan.pointers.size(), 2U);
  EXPECT_EQ(plan.pointers[0].array, "x");
  EXPECT_EQ(plan.pointers[0].alignment, 4U);
  EXPECT_EQ(plan.pointers[0].extent_bytes, 10 * 64 * 2);
  EXPECT_EQ(plan.pointers[1].extent_bytes, (9 * 100 + 64) * 2);
  EXPECT_FALSE(plan.pointers[0].written);
  EXPECT_TRUE(plan.pointers[1].written);
}

TEST(SoftmaxVerification, RunsTheSameBinaryOnFewRows) {
  for (const char* fields : shapes) {
    const Problem p = normal(fields);
    const Problem small = op().verification_problem(p);
    EXPECT_EQ(op().normalize(small), small);
    EXPECT_LE(small.fields.integer("rows"), 513);
    EXPECT_GE(small.fields.integer("rows"), 17);
    const Config config = op().default_config(p, h100());
    EXPECT_EQ(render(op(), small, config), render(op(), p, config)) << fields;
  }
}

TEST(Registry, UnknownOpListsWhatExists) {
  try {
    find_op("softmix");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'softmix'; allowed: softmax"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tunesmith
