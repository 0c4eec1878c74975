// Configurations of the softmax family: search spaces, defaults, partial and invalid configurations.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "tests/support/cases.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using test::normalized;
using test::softmax_ops;
using Names = std::set<std::string>;

DeviceInfo device_of(const char* arch) { return generic_device(parse_arch(arch)); }
DeviceInfo space_h100() { return device_of("sm_90a"); }

const char* const space_shapes[] = {
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
    "rows=2048,cols=2048,dtype=bf16,scale=0.125,causal=1,safe=1",
    "rows=64,cols=20000,mask=keep,valid_cols=1",
    "rows=75,cols=66528",
    "rows=60,cols=71755,dtype=bf16",
};
const char* const archs[] = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"};

Names variants_of(std::string_view op, const std::string& fields, const DeviceInfo& device, Effort effort = Effort::full) {
  Names names;
  for (const Config& config : find_op(op).parse(normalized(op, fields))->search_space(device, effort))
    names.insert(config.variant());
  return names;
}

// Which of 4 and 8 blocks is faster differs between space_shapes by 10%.
TEST(SoftmaxSpace, FewLongRowsTryClustersOf4And8Blocks) {
  const Problem p = normalized("softmax", "rows=57,cols=81120,dtype=bf16");
  std::string all;
  for (const Config& config : find_op("softmax").parse(p)->search_space(space_h100(), Effort::quick))
    all += config.text() + "\n";
  for (const char* cluster : {"variant=cluster,threads=256,blocks_per_row=4,",
                              "variant=cluster,threads=256,blocks_per_row=8,", "variant=grid,threads=128,"})
    EXPECT_NE(all.find(cluster), std::string::npos) << cluster << "\n" << all;
}

// Compiling the unrolled kernels of long rows takes most of the time of a quick search.
TEST(SoftmaxSpace, QuickTriesFewCandidatesOnLongRows) {
  for (const std::string_view op : softmax_ops)
    for (const char* dtype : {",dtype=f32", ",dtype=bf16"})
      for (const char* rows : {"rows=4096", "rows=16"})
        for (const char* cols : {",cols=40000", ",cols=65536", ",cols=151937", ",cols=262144"}) {
          const auto space =
              find_op(op).parse(normalized(op, std::string(rows) + cols + dtype))->search_space(space_h100(), Effort::quick);
          EXPECT_LE(space.size(), 14U) << op << rows << cols << dtype;
          EXPECT_GE(space.size(), 4U) << op << rows << cols << dtype;
        }
}

TEST(SoftmaxSpace, LongRowsUseTheSmallestNumberOfBlocks) {
  const auto offers = [](const char* fields, Effort effort, const std::string& start) {
    const auto space = find_op("softmax").parse(normalized("softmax", fields))->search_space(space_h100(), effort);
    return std::ranges::any_of(space, [&](const Config& config) { return config.text().starts_with(start); });
  };
  for (const Effort effort : {Effort::quick, Effort::full}) {
    EXPECT_TRUE(offers("rows=4096,cols=131072", effort, "variant=cluster,threads=512,blocks_per_row=4,"));
    EXPECT_FALSE(offers("rows=4096,cols=131072", effort,
                        "variant=cluster,threads=512,blocks_per_row=2,register_vectors=9,min_blocks=2"));
    EXPECT_FALSE(offers("rows=4096,cols=262144", effort, "variant=grid"));
  }
  // Small blocks, in clusters around the smallest whose blocks have at most 42 KiB of a row.
  for (const Effort effort : {Effort::quick, Effort::full}) {
    for (const char* start :
         {"variant=cluster,threads=128,blocks_per_row=4,register_vectors=3,min_blocks=7,",
          "variant=cluster,threads=128,blocks_per_row=4,register_vectors=4,min_blocks=8,registers=packed,",
          "variant=cluster,threads=128,blocks_per_row=4,register_vectors=3,min_blocks=5,",
          "variant=cluster,threads=128,blocks_per_row=8,register_vectors=3,min_blocks=8,"})
      EXPECT_TRUE(offers("rows=512,cols=65536,dtype=bf16", effort, start)) << start;
    EXPECT_TRUE(offers("rows=512,cols=262144,dtype=bf16", effort, "variant=cluster,threads=128,blocks_per_row=16,"));
    EXPECT_FALSE(offers("rows=512,cols=65536,dtype=bf16", effort, "variant=cluster,threads=128,blocks_per_row=16,"));
    EXPECT_FALSE(offers("rows=512,cols=8192,dtype=bf16", effort, "variant=cluster,"));
  }
  EXPECT_TRUE(offers("rows=4096,cols=131072", Effort::full, "variant=cluster,threads=512,blocks_per_row=3,"));
  EXPECT_TRUE(offers("rows=4096,cols=262144", Effort::full, "variant=cluster,threads=384,blocks_per_row=6,"));
}

TEST(SoftmaxSpace, TriesThreadCountsThatDivideARow) {
  const auto threads_of = [](const char* fields, Effort effort) {
    std::set<std::int64_t> threads;
    for (const Config& config : find_op("softmax").parse(normalized("softmax", fields))->search_space(space_h100(), effort))
      if (config.variant() == "block") threads.insert(config.fields.integer("threads"));
    return threads;
  };
  for (const char* fields : {"rows=4096,cols=10240", "rows=4096,cols=7168", "rows=4096,cols=14336,dtype=bf16"})
    for (const Effort effort : {Effort::quick, Effort::full}) {
      const auto threads = threads_of(fields, effort);
      EXPECT_TRUE(std::ranges::any_of(threads, [](std::int64_t count) { return (count & (count - 1)) != 0; })) << fields;
      EXPECT_TRUE(std::ranges::any_of(threads, [](std::int64_t count) { return (count & (count - 1)) == 0; })) << fields;
    }
}

TEST(SoftmaxSpace, OffersVariantsThatFit) {
  struct Expectation {
    const char *fields, *offered, *not_offered;
  };
  const auto check = [](std::string_view op, const Expectation& expected) {
    const Names names = variants_of(op, expected.fields, space_h100());
    std::string text;
    for (const std::string& name : names) text += name + " ";
    const auto each = [&](const char* list, bool wanted) {
      std::istringstream words(list);
      for (std::string word; words >> word;)
        EXPECT_EQ(names.contains(word), wanted) << op << " " << expected.fields << ": " << word << " of " << text;
    };
    each(expected.offered, true);
    each(expected.not_offered, false);
  };
  const Expectation both[] = {
      {"rows=4096,cols=1024", "warp block", "hybrid cluster grid split two_pass"},
      {"rows=4096,cols=781", "warp block", "hybrid cluster grid split two_pass"},
      {"rows=4096,cols=4096", "block two_pass", "cluster grid split"},
      {"rows=4096,cols=60000,dtype=bf16", "hybrid cluster two_pass", "warp grid split"},
      {"rows=4096,cols=4194304", "two_pass", "warp block hybrid cluster grid split"},
      {"rows=4096,cols=16777216", "two_pass", "warp block hybrid cluster grid split"},
      {"rows=16,cols=262144", "grid cluster split two_pass", "warp block hybrid"},
      {"rows=1,cols=1048576", "grid split two_pass", "warp block hybrid"},
      {"rows=1,cols=400000000", "split two_pass", "warp block hybrid cluster grid"},
      {"rows=16,cols=8192", "block cluster grid two_pass", ""},
  };
  for (const std::string_view op : softmax_ops) {
    for (const Expectation& expected : both) check(op, expected);
    if (op.ends_with("backward")) {
      check(op, {"rows=4096,cols=65536", "cluster two_pass", "warp block hybrid"});  // two arrays
    } else {
      check(op, {"rows=4096,cols=40000", "hybrid cluster two_pass", "grid"});
    }
  }
}

TEST(SoftmaxSpace, NarrowAccessesAreForUnalignedRows) {
  const auto accesses_of = [](std::string_view op, const std::string& fields, Effort effort) {
    Names names;
    for (const Config& config : find_op(op).parse(normalized(op, fields))->search_space(space_h100(), effort)) {
      const Value* access = config.fields.find("access");
      names.insert(config.variant() + " " + (access == nullptr ? "vectors" : text(*access)));
    }
    return names;
  };
  for (const std::string_view op : softmax_ops)
    for (const Effort effort : {Effort::quick, Effort::full}) {
      for (const char* fields :
           {"rows=4096,cols=501", "rows=4096,cols=501,dtype=f16", "rows=4096,cols=130,dtype=bf16,safe=1"}) {
        const Names names = accesses_of(op, fields, effort);
        for (const char* wanted : {"warp vectors", "warp pairs", "warp elements"})
          EXPECT_TRUE(names.contains(wanted)) << op << " " << fields << ": " << wanted;
      }
      // Aligned rows, and rows that no shift aligns in all arrays.
      for (const char* fields :
           {"rows=4096,cols=1024", "rows=4096,cols=781,y_alignment=4", "rows=4096,cols=781,y_row_stride=782"})
        for (const std::string& name : accesses_of(op, fields, effort))
          EXPECT_TRUE(name.ends_with(" vectors")) << fields << name;
    }
}

TEST(SoftmaxSpace, OffersOnlySupportedVariants) {
  for (const std::string_view op : softmax_ops) {
    for (const char* fields : space_shapes)
      for (const char* arch : archs) {
        const Names names = variants_of(op, fields, device_of(arch));
        const int number = parse_arch(arch).number();
        if (number < 90) {
          EXPECT_FALSE(names.contains("cluster")) << op << " " << fields << " " << arch;
        }
        if (number < 80) {
          EXPECT_FALSE(names.contains("hybrid")) << op << " " << fields << " " << arch;
        }
      }
    for (const char* arch : {"sm_75", "sm_80", "sm_86", "sm_89"})
      EXPECT_TRUE(variants_of(op, "rows=4,cols=65536,dtype=bf16", device_of(arch)).contains("grid")) << op << " " << arch;
    for (const char* arch : {"sm_90a", "sm_100a", "sm_120a"})
      EXPECT_TRUE(variants_of(op, "rows=4096,cols=65536", device_of(arch)).contains("cluster")) << op << " " << arch;
  }
  const auto reason = [](const char* fields, const char* config, const char* arch) {
    const Problem p = normalized("softmax", fields);
    const test::Case c = test::case_of("softmax", fields, space_h100(), config);
    return find_op("softmax").parse(p)->why_invalid(device_of(arch), c.config);
  };
  EXPECT_NE(reason("rows=4096,cols=65536", "variant=cluster", "sm_89").find("sm_90"), std::string::npos);
  EXPECT_NE(reason("rows=4096,cols=40000", "variant=hybrid", "sm_75").find("sm_80"), std::string::npos);
  EXPECT_NE(reason("rows=4096,cols=400000", "variant=cluster,blocks_per_row=16", "sm_100a").find("at most 8"),
            std::string::npos);
}

TEST(SoftmaxSpace, NeverReadsThroughTheReadOnlyPathInPlace) {
  for (const std::string_view op : softmax_ops)
    for (const char* fields : {"rows=4096,cols=1024,in_place=1", "rows=4,cols=65536,in_place=1"})
      for (const Config& config : find_op(op).parse(normalized(op, fields))->search_space(space_h100(), Effort::full))
        EXPECT_EQ(config.text().find("no_allocate"), std::string::npos) << config.text();
}

TEST(SoftmaxSpace, GridVariantIsResident) {
  for (const std::string_view op : softmax_ops)
    for (const char* arch : archs) {
      const DeviceInfo device = device_of(arch);
      for (const Config& config :
           find_op(op).parse(normalized(op, "rows=4,cols=131072,dtype=bf16"))->search_space(device, Effort::full))
        if (config.variant() == "grid") {
          EXPECT_LE(config.fields.integer("blocks_per_row"), config.fields.integer("min_blocks") * device.sm_count);
          EXPECT_LE(config.fields.integer("min_blocks") * config.fields.integer("threads"), device.max_threads_per_sm);
        }
    }
}

TEST(SoftmaxDefault, DependsOnTheShape) {
  const auto variant = [](std::string_view op, const char* fields) {
    return find_op(op).parse(normalized(op, fields))->default_config(space_h100()).variant();
  };
  for (const char* op : {"softmax", "log_softmax"}) {
    EXPECT_EQ(variant(op, "rows=4096,cols=512"), "warp");
    EXPECT_EQ(variant(op, "rows=4096,cols=8192"), "block");
    EXPECT_EQ(variant(op, "rows=4,cols=131072"), "grid");
    EXPECT_EQ(variant(op, "rows=1,cols=200000000"), "split");
  }
  for (const char* op : {"softmax_backward", "log_softmax_backward"}) {
    EXPECT_EQ(variant(op, "rows=4096,cols=400"), "warp");
    EXPECT_EQ(variant(op, "rows=4096,cols=8192"), "block");
    EXPECT_EQ(variant(op, "rows=4,cols=131072"), "grid");
  }
  for (const std::string_view op : softmax_ops)
    for (const char* arch : archs)
      for (std::int64_t cols = 1; cols < 1 << 22; cols = cols * 5 / 3 + 1)
        for (const char* rest :
             {",rows=1", ",rows=4096", ",rows=100,dtype=bf16,mask=keep,causal=1", ",rows=9,dtype=f16,out_dtype=f32"}) {
          const Problem p = normalized(op, "cols=" + std::to_string(cols) + rest);
          const Config config = find_op(op).parse(p)->default_config(device_of(arch));
          EXPECT_EQ(find_op(op).parse(p)->why_invalid(device_of(arch), config), "")
              << p.text() << " " << arch << " " << config.text();
        }
}

TEST(SoftmaxConfig, CompletesPartialAndExplainsInvalidConfigurations) {
  const auto complete = [&](const std::string& text, std::string_view op = "softmax",
                            const char* fields = "rows=4096,cols=8192") {
    return test::case_of(op, fields, space_h100(), text).config.text();
  };
  EXPECT_NE(complete("variant=two_pass").find("variant=two_pass,threads="), std::string::npos);
  EXPECT_NE(complete("threads=1024").find("threads=1024"), std::string::npos);
  EXPECT_NE(complete("variant=block,threads=288").find("threads=288"), std::string::npos);
  EXPECT_NE(complete("variant=cluster,blocks_per_row=3").find("blocks_per_row=3"), std::string::npos);
  for (const std::string_view op : softmax_ops)
    for (const char* variant : {"hybrid", "cluster", "grid", "two_pass", "split"})
      EXPECT_TRUE(complete(std::string("variant=") + variant, op, "rows=40,cols=24000")
                      .starts_with("variant=" + std::string(variant)))
          << op << " " << variant;
  // A complete configuration means itself: the default of unaligned rows, which accesses pairs, adds nothing.
  const std::string whole = "variant=warp,threads=64,lanes=32,load=plain,store=plain";
  EXPECT_EQ(complete(whole, "softmax", "rows=4096,cols=902,dtype=bf16"), whole);
  const auto error = [&](const std::string& text, const char* fields = "rows=4096,cols=8192") -> std::string {
    try {
      return "accepted: " + complete(text, "softmax", fields);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      return e.what();
    }
  };
  const auto expect = [&](const std::string& text, const std::string& part, const char* fields = "rows=4096,cols=8192") {
    EXPECT_NE(error(text, fields).find(part), std::string::npos) << text << ": " << error(text, fields);
  };
  expect("variant=fast", "warp, block, hybrid, cluster, grid, two_pass, split");
  expect("threads=100", "threads is 100; allowed: 32 to 1024 in steps of 32");
  expect("threads=-96", "-96");
  expect("variant=warp,threads=96,lanes=32", "threads is 96; allowed: a power of two from 32 to 1024");
  expect("threads=2048", "32 to 1024");
  expect("thread=64", "'thread'");
  expect("load=fast", "evict_last");
  expect("variant=warp", "registers");
  expect("variant=block,unroll=4", "unroll");
  expect("variant=cluster,blocks_per_row=1", "1; allowed: 2 to 16");
  expect("variant=cluster,blocks_per_row=17", "17; allowed: 2 to 16");
  expect("variant=two_pass,unroll=3", "a power of two from 1 to 16");
  expect("variant=grid,blocks_per_row=1", "2 to 1024");
  expect("variant=split,blocks_per_row=1025", "2 to 1024");
  expect("variant=split,blocks_per_row=1000", "only 3 vectors", "rows=4,cols=12");
  expect("variant=split,blocks_per_row=1000", "gigabyte", "rows=100000,cols=8192");
  expect("variant=hybrid,register_vectors=65", "to 64");
  expect("variant=hybrid,threads=512,register_vectors=8", "only 4 vectors");
  expect("variant=two_pass,blocks_per_sm=33", "0 to 32");
  expect("variant=grid,blocks_per_row=1000,min_blocks=1", "132");
  expect("variant=cluster,threads=32,blocks_per_row=2,min_blocks=1,register_vectors=0", "bytes of shared memory",
         "rows=4096,cols=1000000");
}

TEST(SoftmaxConfig, AccessSelectsNarrowAccesses) {
  for (const std::string_view op : softmax_ops) {
    const auto complete = [&](const std::string& fields, const std::string& text) {
      return test::case_of(op, fields, space_h100(), text).config.text();
    };
    const auto error = [&](const std::string& fields, const std::string& text) -> std::string {
      try {
        return "accepted: " + complete(fields, text);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
        return e.what();
      }
    };
    // Short rows use them by default; access=vectors is omitted.
    EXPECT_NE(complete("rows=40960,cols=101", "").find("access=staged,rounds="), std::string::npos);
    EXPECT_EQ(complete("rows=4096,cols=501", "access=vectors").find("access"), std::string::npos);
    EXPECT_EQ(complete("rows=4096,cols=512", "").find("access"), std::string::npos);
    EXPECT_EQ(complete("rows=4096,cols=5001", "").find("access"), std::string::npos);
    EXPECT_NE(complete("rows=4096,cols=501", "variant=block,access=pairs").find("access=pairs"), std::string::npos);

    EXPECT_NE(error("rows=4096,cols=512", "variant=block,access=pairs")
                  .find("access pairs is for rows that start between two vectors; these start at multiples of 4 elements"),
              std::string::npos);
    EXPECT_NE(error("rows=4096,cols=512,dtype=f16", "variant=warp,access=elements").find("multiples of 8 elements"),
              std::string::npos);
    EXPECT_NE(error("rows=4096,cols=501,y_row_stride=502", "variant=warp,access=elements").find("multiples of 1 elements"),
              std::string::npos);
    EXPECT_NE(error("rows=4096,cols=501", "access=bytes").find("vectors, pairs, elements"), std::string::npos);
    for (const char* variant : {"hybrid", "cluster", "grid", "two_pass", "split"})
      EXPECT_NE(error("rows=4,cols=30001", "access=pairs,variant=" + std::string(variant))
                    .find("access is pairs; allowed: only with variant=warp or variant=block"),
                std::string::npos)
          << variant;
  }
}

TEST(SoftmaxConfig, UnknownConfigurationsFromACacheAreInvalid) {
  for (const std::string_view op : softmax_ops) {
    const Problem p = normalized(op, "rows=4096,cols=8192");
    for (const char* text :
         {"", "variant=block", "variant=7", "threads=x", "variant=two_pass,threads=512,unroll=4,load=1",
          "variant=block,threads=99999999999,min_blocks=1,registers=float32,load=plain,store=plain",
          "variant=grid,threads=256,blocks_per_row=9000000000,register_vectors=4,min_blocks=1,registers=float32,load=plain,"
          "store=plain",
          "variant=staged,threads=256,lanes=8,rows_per_block=8,load=plain,store=plain",  // an old variant
          "variant=block,threads=256,min_blocks=1,registers=float32,access=wide,load=plain,store=plain",
          "variant=two_pass,threads=512,unroll=4,load=plain,load_again=plain,store=plain"})  // from an older version
      EXPECT_NE(find_op(op).parse(p)->why_invalid(space_h100(), Config{parse_fields(text, "config")}), "")
          << op << " " << text;
  }
}

TEST(SoftmaxConfig, EvictionPoliciesNeedSm80) {
  for (const std::string_view op : softmax_ops) {
    const test::Case c = test::case_of(op, "rows=4096,cols=8192", space_h100(), "variant=two_pass,load=evict_last");
    EXPECT_EQ(c.op().parse(c.problem)->why_invalid(space_h100(), c.config), "");
    EXPECT_NE(c.op().parse(c.problem)->why_invalid(device_of("sm_75"), c.config).find("sm_80"), std::string::npos);
  }
}

}  // namespace
}  // namespace tunesmith
