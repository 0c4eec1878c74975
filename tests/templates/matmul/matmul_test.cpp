// matmul: its descriptor and its compilation with NVRTC. Numerics: tests/random.

#include <gtest/gtest.h>

#include <vector>

#include "api/engine/parts.h"
#include "jit/host/compiler.h"
#include "jit/host/device.h"
#include "templates/render.h"
#include "tests/api/engine/fakes.h"
#include "tests/support/cases.h"
#include "tests/templates/matmul/cases.h"
#include "tuner/verify.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

Problem normalized(const std::string& fields) { return test::normalized("matmul", fields); }

TEST(MatmulDescriptor, ErrorsNameFieldsAndConfigurations) {
  using fakes::expect_error;
  expect_error([] { normalized("m=8,n=8"); }, ErrorCode::invalid_argument, {"k", "missing"});
  expect_error([] { normalized("m=8,n=8,k=8,dtype=bf16,out_dtype=f16"); }, ErrorCode::invalid_argument,
               {"out_dtype", "f16", "bf16"});
  expect_error([] { normalized("m=2000000000,n=100000,k=8"); }, ErrorCode::invalid_argument, {"m x n", "100000", "tiles"});
  expect_error([] { test::normalized("linear_loss", "tokens=2000000000,hidden_size=8,vocab_size=100000"); },
               ErrorCode::invalid_argument, {"tokens x vocab_size", "100000", "tiles"});
  expect_error([] { normalized("m=8,n=8,k=8,a_row_stride=7"); }, ErrorCode::invalid_argument, {"a_row_stride", "7"});
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  const auto complete = [&](const char* fields, const char* config) {
    const Problem problem = normalized(fields);
    return find_op("matmul").parse(problem)->complete_config(device, {parse_fields(config, "config")});
  };
  expect_error([&] { complete("m=8,n=9,k=8", "variant=wgmma"); }, ErrorCode::invalid_argument, {"16 bytes"});
  expect_error([&] { complete("m=8,n=8,k=8,dtype=f32", "variant=wgmma"); }, ErrorCode::invalid_argument, {"f32"});
  expect_error([&] { complete("m=8,n=8,k=8", "variant=wgmma,stages=8"); }, ErrorCode::invalid_argument, {"shared memory"});
}

TEST(MatmulHost, AgreesWithFloat64InAllLayouts) {
  HostDevice device;
  HostCompiler compiler;
  std::vector<test::Case> cases;
  for (const auto& [fields, config] : test::matmul_cases(57, 28, 300))
    cases.push_back(test::case_of("matmul", fields, device.info(), config));
  std::vector<CompileRequest> requests;
  for (const test::Case& c : cases)
    requests.push_back({"matmul.cu", render(*c.op().parse(c.problem), c.config), device.info().arch});
  const auto modules = device.load_all(compiler.compile_many(requests));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const test::Case& c = cases[i];
    const ParsedProblemPtr problem = c.op().parse(c.problem);
    const Executable executable(device, modules[i], problem->launch_plan(c.config, device.info()));
    const CheckResult result = verify(*problem, executable, device, 3);
    EXPECT_TRUE(result.passed) << c.text() << ": " << result.first_failure;
  }
}

TEST(MatmulNvrtc, CompilesForEveryArchitectureWithoutSpills) {
  const auto compiler = open_compiler(DeviceInfo::Kind::cuda, EngineOptions::from_environment());
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a", "sm_120a"})
    // With few rows, k is split.
    for (const char* fields :
         {"m=4096,transpose_b=1", "m=200,accumulate=1,row_factors=1", "m=4096,transpose_a=1,out_dtype=f32"}) {
      const test::Case c =
          test::case_of("matmul", std::string("n=1024,k=8192,dtype=bf16,") + fields, generic_device(parse_arch(arch)), "");
      const CompileRequest request{"matmul.cu", render(*c.op().parse(c.problem), c.config), parse_arch(arch)};
      const Binary binary = compiler->compile(request);
      for (const auto& [entry, resources] : binary.resources)
        EXPECT_EQ(resources.spill_store_bytes, 0) << entry << ", " << c.text() << " for " << arch;
      EXPECT_EQ(binary.resources.size(), std::string(arch) == "sm_90a" && fields[2] == '2' ? 2 : 1) << c.text();
    }
}

}  // namespace
}  // namespace tunesmith
