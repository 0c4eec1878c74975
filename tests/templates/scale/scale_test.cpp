// scale: its descriptor, its numerics on the host executor, and its compilation with NVRTC.

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "api/engine/parts.h"
#include "core/half.h"
#include "jit/host/compiler.h"
#include "jit/host/device.h"
#include "templates/render.h"
#include "tests/api/engine/fakes.h"
#include "tests/api/engine/host_options.h"
#include "tests/support/cases.h"
#include "tuner/verify.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

const Op& scale() { return find_op("scale"); }
Problem normalized(const std::string& fields) { return test::normalized("scale", fields); }

TEST(ScaleDescriptor, ErrorsNameFieldsAndConfigurations) {
  using fakes::expect_error;
  expect_error([] { normalized("dtype=f32"); }, ErrorCode::invalid_argument, {"elements", "missing"});
  expect_error([] { normalized("elements=8,dtype=f64"); }, ErrorCode::invalid_argument, {"dtype", "'f64'"});
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  const ParsedProblemPtr problem = scale().parse(normalized("elements=8"));
  expect_error([&] { problem->complete_config(device, {parse_fields("threads=48", "config")}); },
               ErrorCode::invalid_argument, {"threads", "48"});
  EXPECT_EQ(problem->search_space(device, Effort::full), std::vector{problem->default_config(device)});
  EXPECT_TRUE(scale().is_internal());
}

TEST(ScaleDescriptor, TheGridFillsTheDeviceAtMost) {
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  const auto blocks = [&](const char* fields) {
    const ParsedProblemPtr problem = scale().parse(normalized(fields));
    const LaunchPlan plan = problem->launch_plan(problem->default_config(device), device);
    return plan.kernels.empty() ? 0U : plan.kernels.front().grid.x;
  };
  EXPECT_EQ(blocks("elements=0"), 0U);
  EXPECT_EQ(blocks("elements=4096"), 1U);
  EXPECT_EQ(blocks("elements=4097"), 2U);
  EXPECT_EQ(blocks("elements=8193,dtype=f16"), 2U);
  EXPECT_EQ(blocks("elements=1000000000"), static_cast<unsigned>(device.sm_count) * 8U);
}

TEST(ScaleHost, AgreesWithFloat64ForEverySizeAndDtype) {
  HostDevice device;
  HostCompiler compiler;
  std::vector<test::Case> cases;
  const char* const configs[] = {"threads=32,vectors=1", "threads=64,vectors=2", "threads=256,vectors=4"};
  for (const char* dtype : {"f32", "f16", "bf16"})
    for (const char* elements : {"1", "7", "4096", "300011"})
      cases.push_back(test::case_of("scale", std::string("elements=") + elements + ",dtype=" + dtype, device.info(),
                                    configs[cases.size() % std::size(configs)]));
  std::vector<CompileRequest> requests;
  for (const test::Case& c : cases)
    requests.push_back({"scale.cu", render(*c.op().parse(c.problem), c.config), device.info().arch});
  const auto modules = device.load_all(compiler.compile_many(requests));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const test::Case& c = cases[i];
    const ParsedProblemPtr problem = c.op().parse(c.problem);
    const Executable executable(device, modules[i], problem->launch_plan(c.config, device.info()));
    const CheckResult result = verify(*problem, executable, device, 3);
    EXPECT_TRUE(result.passed) << c.text() << ": " << result.first_failure;
    EXPECT_GT(result.checked_rows, 0) << c.text();
  }
}

TEST(ScaleHost, AFactorOfOneWritesNothingAndAFactorMayExceedTheElements) {
  Engine engine(test::host_engine_options());
  alignas(16) std::array<std::byte, 16> x{};
  const auto run = [&](float value, float factor) {
    for (std::int64_t i = 0; i < 8; ++i) write_element(DType::f16, x.data(), i, value);
    // A signalling NaN stays what it is only if nobody writes it.
    x[0] = std::byte{0x01};
    x[1] = std::byte{0x7C};
    engine.run(normalized("elements=8,dtype=f16"), std::array<void*, 2>{x.data(), &factor});
    return read_element(DType::f16, x.data(), 7);
  };
  EXPECT_EQ(run(0.25f, 1.0f), 0.25);
  EXPECT_EQ(x[1], std::byte{0x7C});
  EXPECT_EQ(x[0], std::byte{0x01});
  EXPECT_EQ(run(0x1p-20f, 65536.0f), 0x1p-4) << "65536 is infinite in f16";
  EXPECT_NE(x[1], std::byte{0x7C}) << "a product with NaN is quiet";
  EXPECT_EQ(run(-3.0f, 0.0f), 0.0);
}

TEST(ScaleNvrtc, CompilesForEveryArchitectureAndReadsAndWritesVectors) {
  const auto compiler = open_compiler(DeviceInfo::Kind::cuda, EngineOptions::from_environment());
  for (const char* arch : {"sm_75", "sm_80", "sm_90a", "sm_120a"})
    for (const char* fields : {"elements=100000000", "elements=100000000,dtype=bf16"}) {
      const test::Case c = test::case_of("scale", fields, generic_device(parse_arch(arch)), "");
      const CompileRequest request{"scale.cu", render(*c.op().parse(c.problem), c.config), parse_arch(arch)};
      const Binary binary = compiler->compile(request);
      ASSERT_TRUE(binary.resources.contains("scale")) << c.text() << " for " << arch;
      EXPECT_EQ(binary.resources.at("scale").spill_store_bytes, 0) << c.text() << " for " << arch;
      const std::string ptx = compiler->assembly(request);
      EXPECT_NE(ptx.find("ld.global.v4.b32"), std::string::npos) << c.text() << " for " << arch;
      EXPECT_NE(ptx.find("st.global.v4.b32"), std::string::npos) << c.text() << " for " << arch;
    }
}

}  // namespace
}  // namespace tunesmith
