// linear_loss: its numerics on the host executor, also with faults in its kernels, and its compilation with NVRTC.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "api/engine/parts.h"
#include "core/half.h"
#include "jit/host/compiler.h"
#include "jit/host/device.h"
#include "templates/linear_loss/params.cuh"
#include "templates/render.h"
#include "tests/api/engine/fakes.h"
#include "tests/support/cases.h"
#include "tests/templates/matmul/cases.h"
#include "tuner/verify.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

void expect_right(const char* op, const std::vector<test::ProductCase>& drawn) {
  HostDevice device;
  HostCompiler compiler;
  std::vector<test::Case> cases;
  for (const auto& [fields, config] : drawn) cases.push_back(test::case_of(op, fields, device.info(), config));
  std::vector<CompileRequest> requests;
  for (const test::Case& c : cases)
    requests.push_back({"linear_loss.cu", render(*c.op().parse(c.problem), c.config), device.info().arch});
  const auto modules = device.load_all(compiler.compile_many(requests));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const test::Case& c = cases[i];
    const ParsedProblemPtr problem = c.op().parse(c.problem);
    const Executable executable(device, modules[i], problem->launch_plan(c.config, device.info()));
    const CheckResult result = verify(*problem, executable, device, 3);
    EXPECT_TRUE(result.passed) << c.text() << ": " << result.first_failure;
  }
}

TEST(LinearLossHost, AgreesWithFloat64) { expect_right("linear_loss", test::linear_loss_cases(81, 21, 300, 96, 500)); }
TEST(LinearLossHost, BackwardAgreesWithFloat64) {
  expect_right("linear_loss_backward", test::linear_loss_backward_cases(82, 15, 300, 96, 500));
}

/// Flags of the groups of tokens, and one for all of them, end before what follows.
TEST(LinearLossHost, FlagsAreApartFromPartials) {
  for (const char* tokens : {"4095", "4096", "4097"}) {  // 64 groups fill a multiple of the alignment
    const DeviceInfo device = HostDevice().info();
    const test::Case c = test::case_of("linear_loss", std::string("tokens=") + tokens + ",hidden_size=8,vocab_size=40",
                                       device, "variant=simt,tile=64");
    const LaunchPlan plan = c.op().parse(c.problem)->launch_plan(c.config, device);
    LinearLossParams params;
    ASSERT_EQ(plan.params.size(), sizeof params);
    std::memcpy(&params, plan.params.data(), sizeof params);
    EXPECT_GE(params.partials_at - params.repeats_at, 4 * (params.groups + 1)) << tokens;
  }
}

/// Shares next to the largest number, which their products with factors below 1 and with derivatives come back from.
TEST(LinearLossHost, SharesMayOverflow) {
  HostDevice device;
  for (const char* fields : {"tokens=90,hidden_size=8,vocab_size=40,dtype=f32,dlse=1",
                             "tokens=90,hidden_size=8,vocab_size=40,dtype=bf16,dlse=1,z_loss=0.01,softcap=50"}) {
    const test::Case c = test::case_of("linear_loss_backward", fields, device.info(), "variant=simt,tile=32");
    const ParsedProblemPtr problem = c.op().parse(c.problem);
    const Executable executable(
        device, device.load(HostCompiler().compile({"linear_loss.cu", render(*problem, c.config), device.info().arch})),
        problem->launch_plan(c.config, device.info()));
    const CheckResult result = verify(*problem, executable, device, 3, [&](std::span<const HostArray> arrays) {
      problem->fill_inputs(3, InputKind::random, arrays);
      for (const HostArray& array : arrays)
        for (std::int64_t t = 0; array.info.name == "lse" && t < array.info.elements(); ++t)
          write_element(DType::f32, array.data, t,
                        static_cast<float>(read_element(DType::f32, array.data, t) - 86 - 0.05 * static_cast<double>(t)));
    });
    EXPECT_TRUE(result.passed) << c.text() << ": " << result.first_failure;
  }
}

/// Expects that the check of one of the problems rejects every fault: what the source has, and what replaces it.
void expect_found(const char* op, const std::vector<std::string>& problems_of_op,
                  const std::vector<std::pair<std::string, std::string>>& faults) {
  HostDevice device;
  HostCompiler compiler;
  std::vector<test::Case> cases;
  std::vector<ParsedProblemPtr> problems;
  std::vector<std::string> sources;
  for (const std::string& fields : problems_of_op) {
    cases.push_back(test::case_of(op, fields, device.info(), "variant=simt,tile=32"));
    problems.push_back(cases.back().op().parse(cases.back().problem));
    sources.push_back(render(*problems.back(), cases.back().config));
  }
  std::vector<CompileRequest> requests;
  for (const auto& [right, wrong] : faults)
    for (const std::string& source : sources) {
      std::string changed = source;
      const std::size_t at = changed.find(right);
      ASSERT_NE(at, std::string::npos) << right;
      changed.replace(at, right.size(), wrong);
      requests.push_back({"linear_loss.cu", changed, device.info().arch});
    }
  const auto modules = device.load_all(compiler.compile_many(requests));
  for (std::size_t i = 0; i < faults.size(); ++i) {
    bool passes = true;
    for (std::size_t j = 0; j < problems.size(); ++j) {
      const Executable executable(device, modules[i * problems.size() + j],
                                  problems[j]->launch_plan(cases[j].config, device.info()));
      passes = passes && verify(*problems[j], executable, device, 3).passed;
    }
    EXPECT_FALSE(passes) << faults[i].second;
  }
}

TEST(LinearLossHost, FaultsAreFound) {
  // Without a soft cap, too: it keeps exponentials in range.
  const std::string fields = "tokens=120,hidden_size=40,vocab_size=203,dtype=bf16,gradient=1,dloss=row,nll=1,entropy=1";
  expect_found("linear_loss", {fields + ",z_loss=0.01,softcap=50", fields},
               {{"state.sum = add(state.sum, exponential);", "state.sum = add(state.sum, multiply(exponential, 1.0001f));"},
                {"state.limit = target.counts() ? 0x1.fep+127f : 0.0f;", "state.limit = 0x1.fep+127f;"},
                {"*origin_of_row = multiply(largest, ExponentScale().high);", "*origin_of_row = origin;"},
                {"*repeats = linear_loss_array<int>(params, params.repeats_at)[params.groups] = 1;", ";"},
                {"*repeats = linear_loss_array<int>(params, params.repeats_at)[params.groups] = 1;", "*repeats = 1;"},
                {"return state.limit > 0.0f && columns", "return columns"},
                {"columns <= state.columns && (state.target", "(state.target"},
                {"(state.target < 0 || state.target >= columns)", "state.target < columns"},
                {"float of_class = -rest;", "float of_class = -sum;"},
                {"of_class = fused_multiply_add(sum, divide", "of_class = fused_multiply_add(rest, divide"},
                {"target.ignored ? 0.0f : target.bad", "target.ignored || target.bad ? 0.0f : target.bad"},
                {"shape.upstream == Upstream::row ? row : 0", "0"},
                {"exponential = multiply(exponential, scale_.slope(logit));", "exponential = add(exponential, 0.0f);"},
                {"fused_multiply_add(exponential, distance, state.weighted)", "add(exponential, state.weighted)"},
                {"const bool exists = plain || offset < state.columns;", "const bool exists = true;"},
                {"rest < of_target ? log_of_one_plus(divide(rest, of_target))", "rest < 0.0f ? 0.0f"}});
}

TEST(LinearLossHost, FaultsOfTheGradientAreFound) {
  const std::string fields = "tokens=120,hidden_size=40,vocab_size=203,dtype=bf16,dlse=1,dentropy=1";
  expect_found("linear_loss_backward", {fields + ",z_loss=0.01,softcap=50", fields},
               {{"state.of_share = state.of_target;", "state.of_share = 1.0f;"},
                {"params_.dlse[row]", "params_.dlse[0]"},
                {"fused_multiply_add(-state.dentropy, params_.entropy[row], state.of_share)", "state.of_share"},
                {"fused_multiply_add(-state.dentropy, distance, factor)", "factor"},
                {"if (!plain && offset == state.target) gradient = subtract", "if (offset == 0) gradient = subtract"},
                {"multiply(multiply(2.0f, params_.z_factor), state.lse)", "params_.z_factor"},
                {"return state.of_share != 0.0f && columns <= state.columns", "return state.of_share != 0.0f"},
                {"(!plain && offset >= state.columns)", "false"},
                {"gradient = gradient == 0.0f ? 0.0f : multiply(gradient, scale_.slope(logit));", ";"}});
}

TEST(LinearLossNvrtc, CompilesForEveryArchitectureWithoutSpills) {
  const auto compiler = open_compiler(DeviceInfo::Kind::cuda, EngineOptions::from_environment());
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"})
    for (const char* fields : {"", ",gradient=1,dloss=scalar", ",gradient=1,softcap=30,z_loss=1e-4"}) {
      const test::Case c =
          test::case_of("linear_loss", std::string("tokens=4096,hidden_size=4096,vocab_size=128256") + fields,
                        generic_device(parse_arch(arch)), "");
      const CompileRequest request{"linear_loss.cu", render(*c.op().parse(c.problem), c.config), parse_arch(arch)};
      const Binary binary = compiler->compile(request);
      for (const char* entry : {"linear_loss", "linear_loss_finish"}) {  // few tokens are repeated, if any
        ASSERT_TRUE(binary.resources.contains(entry)) << c.text() << " for " << arch;
        EXPECT_EQ(binary.resources.at(entry).spill_store_bytes, 0) << entry << ", " << c.text() << " for " << arch;
      }
    }
}

}  // namespace
}  // namespace tunesmith
