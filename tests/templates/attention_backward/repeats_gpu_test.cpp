// Repeated launches of attention's backward pass on a GPU have equal results.

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/gpu_kernels.h"
#include "tests/templates/attention/mods.h"
#include "tests/templates/attention_backward/device_problem.h"
#include "tunesmith/tunesmith.h"

namespace tunesmith {
namespace {

struct Repeated {
  const char* fields;
  std::string variant;

  friend std::ostream& operator<<(std::ostream& out, const Repeated& problem) {
    return out << problem.fields << ' ' << problem.variant;
  }
};
class AttentionBackwardGpuRepeats : public test::GpuKernels, public testing::WithParamInterface<Repeated> {};

// All gradients, except that wgmma adds to dq in any order unless it is ordered.
TEST_P(AttentionBackwardGpuRepeats, AreEqualBitForBit) {
  const auto& [fields, variant] = GetParam();
  if (variant.starts_with("wgmma") && name(device().info().arch) != "sm_90a") GTEST_SKIP() << "wgmma is sm_90a's";
  Problem problem{"attention_backward", parse_fields(fields, "fields")};
  if (problem.fields.contains("daux")) problem.fields.set("score_mod", test::mod_example("relative_bias"));
  problem = find_op(problem.op).normalize(problem);
  const ParsedProblemPtr parsed = find_op("attention_backward").parse(problem);
  test::DeviceProblem on_device(*engine_, *parsed);
  PrepareOptions options;
  if (!variant.empty()) options.config.fields = parse_fields("variant=" + variant, "config");
  const Plan plan = engine_->prepare(problem, options);
  std::map<std::string, std::vector<std::byte>> first;
  const bool ordered = problem.fields.contains("deterministic") || variant.find("cluster") != std::string::npos ||
                       variant.find("kernels=2") != std::string::npos;
  for (int repeat = 0; repeat < (ordered ? 1000 : 50); ++repeat) {
    plan.launch(on_device.addresses());
    engine_->synchronize();
    for (const ArrayInfo& info : parsed->arrays()) {
      // wgmma sums dq in any order.
      if (!info.output || (variant.starts_with("wgmma") && !ordered && info.name == "dq")) continue;
      // One block alone sums the others.
      if (repeat % 20 != 0 && info.name != "dq" && !info.name.starts_with("daux")) continue;
      std::vector<std::byte> result = on_device.fetch(info.name);
      if (repeat == 0)
        first[info.name] = std::move(result);
      else
        ASSERT_EQ(first[info.name] == result, true)
            << variant << " " << fields << ": " << info.name << ", repeat " << repeat;
    }
  }
}

const Repeated repeated[] = {
    {"seq_q=2048,head_dim=128,heads=8,kv_heads=2,causal=bottom-right", "mma"},
    {"seq_q=2048,head_dim=128,heads=8,causal=bottom-right,deterministic=1", "wgmma,kernels=1"},
    {"seq_q=2048,head_dim=64,heads=16,kv_heads=4,deterministic=1", ""},
    {"seq_q=2048,head_dim=256,heads=8,window_left=500,deterministic=1", ""},
    {"seq_q=2048,head_dim=256,heads=8,window_left=500,deterministic=1", "wgmma,kernels=1"},
    {"seq_q=2000,head_dim=256,heads=8,kv_heads=4,causal=bottom-right", "wgmma,kernels=2"},
    {"seq_q=900,head_dim=128,heads=8,batch=8,varlen=1,total_q=4000,total_kv=5000,deterministic=1,causal=bottom-right", ""},
    {"seq_q=2048,head_dim=64,heads=8,kv_heads=2,alibi=1,dslopes=1", "wgmma"},
    {"seq_q=512,head_dim=128,heads=16,batch=8", "wgmma,cluster=4"},
    {"seq_q=1000,head_dim=64,heads=16,kv_heads=4,batch=8,causal=bottom-right", "wgmma,cluster=8"},
    {"seq_q=1000,head_dim=128,heads=8,kv_heads=1,causal=bottom-right", "wgmma,head_split=8"},
    {"seq_q=1000,head_dim=64,heads=8,batch=32,causal=bottom-right", "wgmma,adders=1,persistent=1"},
    {"seq_q=700,head_dim=128,heads=8,kv_heads=4,batch=32,deterministic=1", "wgmma,persistent=1"},
    {"seq_q=1024,head_dim=64,heads=8,dropout=0.2", "mma"},
    {"seq_q=1024,head_dim=64,heads=8,dropout=0.2,deterministic=1", ""},
    {"seq_q=1024,head_dim=64,heads=8,dropout=0.2,deterministic=1", "wgmma,kernels=1"},
    {"seq_q=1000,head_dim=64,heads=8,batch=8,dropout=0.2,deterministic=1,causal=bottom-right",
     "wgmma,kernels=1,persistent=1"},
    {"seq_q=2048,head_dim=128,heads=8,kv_heads=2,causal=bottom-right", "wgmma"},
    {"seq_q=1024,head_dim=64,heads=8,alibi=1,dslopes=1,sinks=1,dsinks=1,dtype=f16", "mma"},
    {"seq_q=512,head_dim=64,heads=4,dtype=f32", "simt"},
    {"seq_q=1024,head_dim=64,heads=8,batch=2,deterministic=1,daux=bias", ""},
    {"seq_q=1024,head_dim=64,heads=8,batch=2,deterministic=1,daux=bias", "mma"}};
INSTANTIATE_TEST_SUITE_P(All, AttentionBackwardGpuRepeats, testing::ValuesIn(repeated));

}  // namespace
}  // namespace tunesmith
