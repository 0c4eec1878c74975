// matmul: its descriptor and its compilation with NVRTC. Numerics: tests/random.

#include <gtest/gtest.h>

#include <vector>

#include "api/engine/parts.h"
#include "jit/host/compiler.h"
#include "jit/host/device.h"
#include "templates/render.h"
#include "tests/api/engine/fakes.h"
#include "tests/templates/matmul/cases.h"
#include "tests/templates/softmax/cases.h"
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
    for (const char* fields : {"transpose_b=1", "accumulate=1", "transpose_a=1,out_dtype=f32"}) {
      const test::Case c = test::case_of("matmul", std::string("m=4096,n=4096,k=4096,dtype=bf16,") + fields,
                                         generic_device(parse_arch(arch)), "");
      const CompileRequest request{"matmul.cu", render(*c.op().parse(c.problem), c.config), parse_arch(arch)};
      const Binary binary = compiler->compile(request);
      ASSERT_TRUE(binary.resources.contains("matmul")) << c.text() << " for " << arch;
      EXPECT_EQ(binary.resources.at("matmul").spill_store_bytes, 0) << c.text() << " for " << arch;
    }
}

}  // namespace
}  // namespace tunesmith
