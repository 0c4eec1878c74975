// Numerics of the generated attention kernels on the host executor compared with float64: with poisoned outputs, canaries,
// NaN in every gap between rows, and a second run that must be bitwise equal (tuner/verify.h).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "templates/attention/settings.h"
#include "templates/half.h"
#include "tests/support/host_kernels.h"
#include "tests/templates/attention/cases.h"
#include "tests/templates/attention/mods.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::Case;

class AttentionHost : public test::HostKernels {
 protected:
  Case case_of(const std::string& fields, const std::string& config) {
    return test::case_of("attention", fields, device_.info(), config);
  }
};

TEST_F(AttentionHost, EveryProblemInEveryVariant) {
  std::vector<Case> cases = test::attention_cases(test::attention_problems(false), device_.info(), 0, 7);
  std::set<std::string> variants;
  for (const Case& c : cases) variants.insert(c.config.variant());
  EXPECT_EQ(variants, (std::set<std::string>{"simt", "mma", "split"}));
  verify_all(cases);
}

// The problems that are float32 above, in 16 bits on tensor cores.
TEST_F(AttentionHost, TensorCoresOnEveryOtherProblem) {
  const std::vector<Problem> seen = test::attention_problems(false);
  std::vector<Case> cases;
  for (const Problem& problem : test::attention_problems(true)) {
    if (std::ranges::find(seen, problem) != seen.end()) continue;
    const Config config = find_op("attention").parse(problem)->default_config(device_.info());
    EXPECT_EQ(config.variant(), "mma");
    cases.push_back({problem, config});
  }
  EXPECT_GT(cases.size(), 5U);
  verify_all(cases);
}

// Head dims that are not multiples of a vector, tile or swizzle, with configurations from the whole search space.
TEST_F(AttentionHost, TensorCoresFarFromTheDefault) {
  std::vector<Case> cases;
  std::set<std::int64_t> warps, stages, tiles_kv, rows, held;
  std::uint64_t seed = 1;
  for (const char* fields :
       {"seq_q=70,seq_kv=131,head_dim=40,heads=2,causal=bottom-right,dtype=f16", "seq_q=70,seq_kv=131,head_dim=8,dtype=bf16",
        "seq_q=129,seq_kv=127,head_dim=24,dtype=f16,causal=top-left,window_left=40",
        "seq_q=128,seq_kv=128,head_dim=72,head_dim_v=104,heads=2,kv_heads=1,dtype=bf16,softcap=20,alibi=1",
        "seq_q=60,seq_kv=90,head_dim=104,head_dim_v=40,batch=4,varlen=1,total_q=100,total_kv=200,dtype=f16,sinks=1",
        "seq_q=33,seq_kv=65,head_dim=256,head_dim_v=24,dtype=f16,window_right=3,q_alignment=2,k_alignment=4,v_alignment=8",
        "seq_q=65,seq_kv=49,head_dim=16,head_dim_v=256,dtype=bf16,causal=bottom-right,o_alignment=2"}) {
    const Problem problem = test::normalized("attention", fields);
    for (Config& config : test::sample_space(problem, device_.info(), 6, seed++)) {
      if (config.variant() != "mma") continue;
      const auto field = [&](const char* name) { return config.fields.integer(name); };
      warps.insert(field("warps"));
      stages.insert(field("stages"));
      tiles_kv.insert(field("tile_kv"));
      rows.insert(field("tile_q") / field("warps"));
      held.insert(field("q_in_registers"));
      cases.push_back({problem, std::move(config)});
    }
  }
  EXPECT_GE(warps.size(), 4U);
  EXPECT_EQ(stages, (std::set<std::int64_t>{1, 2, 3}));
  EXPECT_GE(tiles_kv.size(), 4U);
  EXPECT_EQ(rows, (std::set<std::int64_t>{16, 32}));
  EXPECT_EQ(held, (std::set<std::int64_t>{0, 1}));
  verify_all(cases);
}

TEST_F(AttentionHost, WholeSearchSpaceOfOneShape) {
  const Problem problem =
      test::normalized("attention", "seq_q=70,seq_kv=131,head_dim=40,heads=2,causal=bottom-right,dtype=f32");
  std::vector<Case> cases;
  for (const Config& config : find_op("attention").parse(problem)->search_space(device_.info(), Effort::full))
    cases.push_back({problem, config});
  ASSERT_GT(cases.size(), 10U);
  verify_all(cases);
}

// Verification uses a smaller problem with the same binary. Tests it with every option and with large strides.
TEST_F(AttentionHost, VerificationProblemHasTheSameSource) {
  for (const char* fields :
       {"seq_q=8192,head_dim=64,heads=32,kv_heads=8,batch=2", "seq_q=1,seq_kv=65536,head_dim=128,heads=32,kv_heads=8",
        "seq_q=4096,head_dim=64,heads=3,q_seq_stride=576,q_batch_stride=123456789,causal=bottom-right,window_left=1024",
        "seq_q=4096,head_dim=64,heads=3,layout=bhsd,o_head_stride=1000001,o_batch_stride=3000003,varlen=1,batch=4,"
        "total_q=9000,total_kv=9000",
        "seq_q=4096,head_dim=72,heads=16,softcap=30,alibi=1,sinks=1,causal=top-left,dtype=f32"}) {
    std::string text = fields;
    if (text.find("varlen") != text.npos) text.replace(text.find(",o_batch_stride=3000003"), 23, "");
    const Case large = case_of(text, "");
    const Case small{large.op().parse(large.problem)->verification_problem(), large.config};
    EXPECT_EQ(large.op().normalize(small.problem), small.problem) << small.text();
    EXPECT_EQ(render(*large.op().parse(large.problem), large.config), render(*small.op().parse(small.problem), small.config))
        << large.text();
    std::int64_t bytes = 0;
    for (const ArrayInfo& array : small.op().parse(small.problem)->arrays()) bytes += array.extent_bytes();
    EXPECT_LT(bytes, 64 << 20) << small.text();
  }
}

// For tiles with small scores, softcap uses a short polynomial; the check against the reference allows for its error. The
// error is visible in the lse of queries with identical keys, and must be neither larger than stated nor zero. Negative
// scores with a large cap must not overflow the weights.
TEST_F(AttentionHost, SoftcapPolynomialHasTheStatedError) {
  constexpr std::int64_t queries = 64, keys = 64, dim = 16;
  for (const char* dtype : {"bf16", "f16"})
    for (const double cap : {5.0, 30.0, 50.0, 1000.0}) {
      const Case c = case_of("seq_q=64,seq_kv=64,head_dim=16,scale=1,softcap=" + std::to_string(cap) + ",dtype=" + dtype,
                             "variant=mma");
      const DType type = parse_dtype(dtype);
      // The first element of a query is its score.
      const double bound = std::pow(attention::small_cap_error * 120 / cap, 0.2) * cap;
      const bool is_small = bound <= attention::most_small_score;
      with_executables({c}, [&](const Case&, const Executable& executable) {
        const test::AttentionArraysOnHost arrays(c.problem, 3);
        for (const char* name : {"q", "k"})
          for (std::int64_t i = 0; i < queries * dim; ++i) {
            const double score = (static_cast<double>(i / dim) / (queries - 1) - 0.5) * 1.99 * bound;
            const double first = name[0] == 'q' ? score : 1.0;
            write_element(type, arrays[name].data, i, i % dim == 0 ? static_cast<float>(first) : 0.0f);
          }
        std::vector<void*> addresses;
        for (const HostArray& array : arrays.all()) addresses.push_back(array.data);
        executable.enqueue(addresses, nullptr);
        double worst = 0;
        for (std::int64_t i = 0; i < queries; ++i) {
          const double score = read_element(type, arrays["q"].data, i * dim);
          const double lse = cap * std::tanh(score / cap) + std::log(static_cast<double>(keys));
          worst = std::max(worst, std::fabs(arrays.real("lse", i) - lse));
        }
        EXPECT_LE(worst, attention::small_cap_error + 1e-5) << c.text();
        if (is_small) {
          EXPECT_GE(worst, attention::small_cap_error / 4) << c.text() << ": the polynomial was not used";
        }
      });
    }
}

// The check against the reference detects a result that one wrong key changes.
TEST_F(AttentionHost, DetectsAWrongMask) {
  const Case right = case_of("seq_q=40,seq_kv=40,head_dim=16,dtype=bf16", "");
  const Case wrong = case_of("seq_q=40,seq_kv=40,head_dim=16,dtype=bf16,window_left=38", "");
  with_executables({wrong}, [&](const Case&, const Executable& executable) {
    EXPECT_FALSE(verify(*right.op().parse(right.problem), executable, device_, 3).passed);
  });
}

}  // namespace
}  // namespace tunesmith
