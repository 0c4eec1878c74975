// copy, the baseline: its descriptor, its numerics on the host executor, and its compilation with NVRTC.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "api/engine/parts.h"
#include "jit/host/compiler.h"
#include "jit/host/device.h"
#include "templates/render.h"
#include "tests/support/cases.h"
#include "tuner/verify.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

const char* const archs[] = {"sm_75", "sm_80", "sm_90a", "sm_120a"};

const Op& copy() { return find_op("copy"); }
Problem normalized(const std::string& fields) { return test::normalized("copy", fields); }
DeviceInfo device_of(const char* arch) { return generic_device(parse_arch(arch)); }

template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
    return "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
}

void expect_parts(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
}

TEST(CopyDescriptor, NormalizeFillsInDefaultsOnce) {
  const Problem problem = normalized("elements=100");
  EXPECT_EQ(problem.text(), "copy elements=100,dtype=f32,inputs=1,in_place=0");
  EXPECT_EQ(copy().normalize(problem), problem);
}

TEST(CopyDescriptor, ErrorsNameFieldValueAndAllowedValues) {
  const auto error = [](const std::string& fields) { return error_of([&] { normalized(fields); }); };
  expect_parts(error("dtype=f32"), {"elements", "missing"});
  expect_parts(error("elements=-1"), {"elements", "-1", "0 to"});
  expect_parts(error("elements=1125899906842625"), {"elements", "1125899906842625", "1125899906842624"});
  expect_parts(error("elements=8,dtype=i32"), {"dtype", "'i32'", "f32, f16, bf16"});
  expect_parts(error("elements=8,inputs=3"), {"inputs", "3", "1 to 2"});
  expect_parts(error("elements=8,in_place=2"), {"in_place", "2", "0 to 1"});
  expect_parts(error("elements=8,write=0,inputs=2"), {"write is 0", "inputs is 2"});
  expect_parts(error("elements=8,write=0,in_place=1"), {"write is 0", "in_place 1"});
  expect_parts(error("elements=8,rows=1"), {"rows", "copy", "elements"});
}

TEST(CopyDescriptor, ArraysKeyAndCost) {
  const auto names = [](const Problem& problem) {
    std::string text;
    for (const ArrayInfo& info : copy().parse(problem)->arrays()) text += info.name + (info.output ? "> " : "< ");
    return text;
  };
  EXPECT_EQ(names(normalized("elements=100")), "a< y> ");
  EXPECT_EQ(names(normalized("elements=100,inputs=2")), "a< b< y> ");
  EXPECT_EQ(copy().parse(normalized("elements=8193,write=0,dtype=f16"))->arrays()[1].shape, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(copy().parse(normalized("elements=100,dtype=bf16"))->cost().bytes(), 400);
  EXPECT_EQ(copy().parse(normalized("elements=100,inputs=2"))->cost().bytes(), 1200);
  EXPECT_EQ(copy().parse(normalized("elements=100"))->key().n_cols, 100);
  std::set<std::string> problem_class;
  for (const char* fields : {"", ",dtype=f16", ",inputs=2", ",in_place=1"})
    EXPECT_TRUE(
        problem_class.insert(copy().parse(normalized(std::string("elements=100") + fields))->key().problem_class).second)
        << fields;
}

TEST(CopyDescriptor, ExplainsInvalidConfigurations) {
  const auto error = [](const std::string& config, const char* arch = "sm_90a", const std::string& options = "") {
    return error_of([&] {
      copy()
          .parse(normalized("elements=1000000" + options))
          ->complete_config(device_of(arch), Config{parse_fields(config, "config")});
    });
  };
  EXPECT_EQ(error("threads=128,vectors=2,load=evict_last"), "accepted");
  expect_parts(error("threads=96"), {"threads", "96", "a power of two from 32 to 1024"});
  expect_parts(error("vectors=32"), {"vectors", "32", "a power of two from 1 to 16"});
  expect_parts(error("load=fast"), {"load", "'fast'", "evict_last"});
  expect_parts(error("store=evict_last"), {"store", "'evict_last'", "streaming"});
  expect_parts(error("lanes=8"), {"'lanes'", "variant, threads, vectors, load, store"});
  expect_parts(error("variant=block"), {"variant", "'block'", "stretch"});
  expect_parts(error("load=evict_last", "sm_75"), {"sm_80", "sm_75"});
  expect_parts(error("load=no_allocate", "sm_90a", ",in_place=1"), {"no_allocate", "in_place"});
  expect_parts(error("threads=1024,vectors=16", "sm_90a", ",inputs=2"), {"registers"});
  EXPECT_NE(copy().parse(normalized("elements=8"))->why_invalid(device_of("sm_90a"), Config{}), "");
}

TEST(CopyDescriptor, LaunchesBlocksForAllElements) {
  const auto grid = [](const char* fields) {
    const Config config{parse_fields("variant=stretch,threads=64,vectors=2,load=plain,store=plain", "config")};
    const LaunchPlan plan = copy().parse(normalized(fields))->launch_plan(config, device_of("sm_90a"));
    return plan.kernels.empty() ? 0U : plan.kernels.front().grid.x * plan.kernels.front().grid.y;
  };
  EXPECT_EQ(grid("elements=0"), 0U);
  EXPECT_EQ(grid("elements=512"), 1U);
  EXPECT_EQ(grid("elements=513"), 2U);
  EXPECT_EQ(grid("elements=1024,dtype=f16"), 1U);
  EXPECT_EQ(grid("elements=8192,write=0"), 1U);
  EXPECT_EQ(grid("elements=8193,write=0"), 2U);
}

TEST(CopyHost, CopiesEveryElementAndWritesNothingElse) {
  HostDevice device;
  HostCompiler compiler;
  std::vector<test::Case> cases;
  const char* const configs[] = {"threads=32,vectors=1", "threads=64,vectors=4,load=streaming,store=streaming",
                                 "threads=128,vectors=2,load=evict_last"};
  for (const char* dtype : {"f32", "f16", "bf16"})
    for (const char* inputs : {"1", "2"})
      for (const char* elements : {"1", "7", "4096", "30011"})
        for (const char* in_place : {"0", "1"})
          cases.push_back(test::case_of(
              "copy",
              std::string("elements=") + elements + ",dtype=" + dtype + ",inputs=" + inputs + ",in_place=" + in_place,
              device.info(), configs[cases.size() % std::size(configs)]));
  for (const char* fields : {"elements=7,write=0", "elements=30011,write=0", "elements=30011,dtype=bf16,write=0"})
    cases.push_back(test::case_of("copy", fields, device.info(), "threads=128,vectors=2"));
  std::vector<CompileRequest> requests;
  for (const test::Case& c : cases)
    requests.push_back({"copy.cu", render(*c.op().parse(c.problem), c.config), device.info().arch});
  const auto modules = device.load_all(compiler.compile_many(requests));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const test::Case& c = cases[i];
    const Executable executable(device, modules[i], c.op().parse(c.problem)->launch_plan(c.config, device.info()));
    const CheckResult result = verify(*c.op().parse(c.problem), executable, device, 3);
    EXPECT_TRUE(result.passed) << c.text() << ": " << result.first_failure;
    EXPECT_EQ(result.checked_rows, c.op().parse(c.problem)->arrays().back().shape[0]) << c.text();
  }
}

TEST(CopyHost, CheckDetectsASingleWrongElement) {
  const Problem problem = normalized("elements=1000,inputs=2");
  std::vector<ArrayInfo> infos = copy().parse(problem)->arrays();
  std::vector<std::vector<std::byte>> memory(infos.size(), std::vector<std::byte>(4000));
  std::vector<HostArray> arrays;
  for (std::size_t i = 0; i < infos.size(); ++i) arrays.push_back({infos[i], memory[i].data()});
  copy().parse(problem)->fill_inputs(5, InputKind::random, arrays);
  auto* const a = reinterpret_cast<float*>(memory[0].data());
  auto* const b = reinterpret_cast<float*>(memory[1].data());
  auto* const y = reinterpret_cast<float*>(memory[2].data());
  EXPECT_FALSE(std::equal(a, a + 1000, b));
  std::transform(a, a + 1000, b, y, std::plus<>());
  EXPECT_TRUE(copy().parse(problem)->check(arrays, 1000).passed);
  y[637] = a[637];
  const CheckResult result = copy().parse(problem)->check(arrays, 1000);
  EXPECT_FALSE(result.passed);
  EXPECT_NE(result.first_failure.find("y[637]"), std::string::npos) << result.first_failure;
}

TEST(CopyNvrtc, CompilesForEveryArchitectureAndReadsAndWritesVectors) {
  const auto compiler = open_compiler(DeviceInfo::Kind::cuda, EngineOptions::from_environment());
  for (const char* arch : archs)
    for (const char* fields :
         {"elements=100000000", "elements=100000000,dtype=bf16,inputs=2", "elements=100000000,dtype=f16,write=0"}) {
      const test::Case c =
          test::case_of("copy", fields, device_of(arch), "threads=128,vectors=4,load=plain,store=streaming");
      const CompileRequest request{"copy.cu", render(*c.op().parse(c.problem), c.config), parse_arch(arch)};
      const Binary binary = compiler->compile(request);
      ASSERT_TRUE(binary.resources.contains("copy")) << c.text() << " for " << arch;
      EXPECT_EQ(binary.resources.at("copy").spill_store_bytes, 0) << c.text() << " for " << arch;
      const std::string ptx = compiler->assembly(request);
      EXPECT_NE(ptx.find("ld.global.v4.b32"), std::string::npos) << c.text() << " for " << arch;
      EXPECT_EQ(ptx.find("st.global.cs.v4.b32") != std::string::npos, !c.problem.fields.contains("write"))
          << c.text() << " for " << arch;
    }
}

}  // namespace
}  // namespace tunesmith
