// linear_loss: its numerics on the host executor, also with faults in its kernels, and its compilation with NVRTC.

#include <gtest/gtest.h>

#include <vector>

#include "api/engine/parts.h"
#include "jit/host/compiler.h"
#include "jit/host/device.h"
#include "templates/render.h"
#include "tests/api/engine/fakes.h"
#include "tests/random/chance.h"
#include "tests/templates/softmax/cases.h"
#include "tuner/verify.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

const char* const wgmma_configs[] = {"variant=wgmma,consumers=1,tile_n=64,stages=2,cluster_m=1",
                                     "variant=wgmma,consumers=2,tile_n=128,stages=3,cluster_m=2,group=1",
                                     "variant=wgmma,consumers=2,tile_n=128,stages=2,cluster_n=2,cluster_m=1",
                                     "variant=wgmma,consumers=1,blocks_m=2,tile_n=64,stages=2,cluster_m=1",
                                     "variant=wgmma,consumers=2,tile_n=256,stages=2,cluster_m=2"};

/// Cases of every option and configuration; shapes are drawn.
std::vector<test::Case> cases_of(const DeviceInfo& device) {
  test::Chance chance(81);
  const auto any = [&](int least, int most) { return least + static_cast<int>(chance.below(most - least + 1)); };
  const char* const options[] = {"",
                                 "gradient=1",
                                 "gradient=1,dloss=scalar,z_loss=1e-3,target_dtype=i32",
                                 "gradient=1,dloss=row,scale=0.5,softcap=30,nll=1",
                                 "z_loss=1e-4,softcap=20,nll=1",
                                 "gradient=1,dloss=row,z_loss=0.01,softcap=50",
                                 "gradient=1,scale=2,ignore_index=0"};
  std::vector<test::Case> cases;
  for (int i = 0; i < 21; ++i) {
    const bool tensor_cores = i % 3 != 2;
    const int hidden_size = tensor_cores ? 8 * any(1, 12) : any(1, 70);
    std::string fields = "tokens=" + std::to_string(any(1, 300)) + ",hidden_size=" + std::to_string(hidden_size) +
                         ",vocab_size=" + std::to_string(i % 10 == 4 ? 1 : any(2, 500));
    fields += std::string(",dtype=") + (tensor_cores || i % 2 == 0 ? "bf16" : "f32");
    if (const char* const more = options[i % std::size(options)]; *more != 0) fields += std::string(",") + more;
    if (i % 4 == 1 && tensor_cores) fields += ",exponentials_row_stride=512";
    cases.push_back(test::case_of("linear_loss", fields, device,
                                  tensor_cores ? wgmma_configs[i % std::size(wgmma_configs)] : "variant=simt,tile=32"));
  }
  return cases;
}

TEST(LinearLossHost, AgreesWithFloat64) {
  HostDevice device;
  HostCompiler compiler;
  const std::vector<test::Case> cases = cases_of(device.info());
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

TEST(LinearLossHost, FaultsAreFound) {
  HostDevice device;
  HostCompiler compiler;
  // Without a soft cap, too: it keeps exponentials in range.
  std::vector<ParsedProblemPtr> problems;
  std::vector<std::string> sources;
  const std::string shape = "tokens=120,hidden_size=40,vocab_size=203,dtype=bf16,gradient=1,dloss=row,nll=1";
  const std::string config = "variant=simt,tile=32";
  std::vector<test::Case> cases;
  for (const char* more : {",z_loss=0.01,softcap=50", ""}) {
    cases.push_back(test::case_of("linear_loss", shape + more, device.info(), config));
    problems.push_back(cases.back().op().parse(cases.back().problem));
    sources.push_back(render(*problems.back(), cases.back().config));
  }
  const std::pair<const char*, const char*> faults[] = {
      {"state.sum = add(state.sum, exponential);", "state.sum = add(state.sum, multiply(exponential, 1.0001f));"},
      {"state.limit = target.counts() ? 0x1.fep+127f : 0.0f;", "state.limit = 0x1.fep+127f;"},
      {"*origin_of_row = largest;", "*origin_of_row = origin;"},
      {"*repeats = 1;", "*repeats = 0;"},
      {"float of_class = -rest;", "float of_class = -sum;"},
      {"of_class = fused_multiply_add(sum, divide", "of_class = fused_multiply_add(rest, divide"},
      {"target.ignored ? 0.0f : target.bad", "target.ignored || target.bad ? 0.0f : target.bad"},
      {"shape.upstream == Upstream::row ? row : 0", "0"},
      {"exponential = multiply(exponential, scale_.slope(logit));", ""},
      {"const bool exists = offset < state.columns;", "const bool exists = true;"},
      {"rest < of_target ? log_of_one_plus(divide(rest, of_target))", "rest < 0.0f ? 0.0f"},
  };
  std::vector<CompileRequest> requests;
  for (const auto& [right, wrong] : faults)
    for (const std::string& source : sources) {
      std::string changed = source;
      const std::size_t at = changed.find(right);
      ASSERT_NE(at, std::string::npos) << right;
      changed.replace(at, std::string_view(right).size(), wrong);
      requests.push_back({"linear_loss.cu", changed, device.info().arch});
    }
  const auto modules = device.load_all(compiler.compile_many(requests));
  for (std::size_t i = 0; i < std::size(faults); ++i) {
    bool passes = true;
    for (std::size_t j = 0; j < problems.size(); ++j) {
      const Executable executable(device, modules[i * problems.size() + j],
                                  problems[j]->launch_plan(cases[j].config, device.info()));
      passes = passes && verify(*problems[j], executable, device, 3).passed;
    }
    EXPECT_FALSE(passes) << faults[i].second;
  }
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
      for (const char* entry : {"linear_loss", "linear_loss_repeat", "linear_loss_finish"}) {
        ASSERT_TRUE(binary.resources.contains(entry)) << c.text() << " for " << arch;
        EXPECT_EQ(binary.resources.at(entry).spill_store_bytes, 0) << entry << ", " << c.text() << " for " << arch;
      }
    }
}

}  // namespace
}  // namespace tunesmith
