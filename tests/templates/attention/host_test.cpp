// Numerics of the generated attention kernels on the host executor compared with float64: with poisoned outputs, canaries,
// NaN in every gap between rows, and a second run that must be bitwise equal (tuner/verify.h).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numbers>

#include "core/half.h"
#include "templates/attention/settings.h"
#include "templates/attention/source/kernel_source.h"
#include "tests/support/host_kernels.h"
#include "tests/templates/attention/cases.h"
#include "tests/templates/attention/mods.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::Case;

class AttentionHost : public test::OptimizedHostKernels {
 protected:
  Case case_of(const std::string& fields, const std::string& config) {
    return test::case_of("attention", fields, device_.info(), config);
  }
};

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

// For tiles with small scores, softcap uses short polynomials, one of them in calls that ask for lse; the check against the
// reference allows for their errors, which must be neither larger than stated nor zero.
TEST_F(AttentionHost, SoftcapPolynomialsHaveTheStatedErrors) {
  for (const double cap : {1.0, 5.0, 30.0, 50.0, 1000.0}) {
    AttentionProblem problem{.seq_q = 64, .head_dim = 16};
    problem.scale = 1;
    problem.softcap = cap;
    const attention::Params params = attention::parameters_of(attention::Settings::of(problem));
    double worst = 0, worst_of_lse = 0;
    for (int i = -1000; i <= 1000; ++i) {
      const auto error = [&](double limit, const auto& ratio) {
        const double dot = limit * i / 1000;
        return std::fabs(dot * ratio(dot * dot) / std::numbers::log2e - cap * std::tanh(dot / cap));
      };
      const auto& two = params.cap_small_terms;
      const auto& three = params.cap_lse_terms;
      worst = std::max(worst, error(params.cap_small, [&](double square) { return two[0] + two[1] * square; }));
      worst_of_lse =
          std::max(worst_of_lse,
                   error(params.cap_lse, [&](double square) { return three[0] + square * (three[1] + square * three[2]); }));
    }
    // Coefficients are float32.
    EXPECT_LE(worst, attention::small_cap_error + 1e-5) << cap;
    EXPECT_LE(worst_of_lse, attention::lse_cap_error + params.cap_lse * 0x1p-23) << cap;
    // Where max_small_score limits the scores, the polynomials are better.
    const bool is_small = std::pow(attention::small_cap_error * 120 / cap, 0.2) * cap <= attention::max_small_score;
    if (is_small && cap > 1) {
      EXPECT_GE(worst, attention::small_cap_error / 4) << cap;
    }
    if (is_small && cap > 4) {
      EXPECT_GE(worst_of_lse, attention::lse_cap_error / 4) << cap;
    }
  }
}

// Without lse, kernels use the shorter polynomial: with other coefficients o is wrong. With lse they use the longer one, and
// lse is exact. Negative scores with a large cap must not overflow the weights.
TEST_F(AttentionHost, SoftcapUsesThePolynomialOfTheCall) {
  constexpr std::int64_t queries = 64, keys = 64, dim = 16;
  for (const char* dtype : {"bf16", "f16"})
    for (const double cap : {5.0, 30.0, 50.0, 1000.0}) {
      const Case c = case_of("seq_q=64,seq_kv=64,head_dim=16,scale=1,softcap=" + std::to_string(cap) + ",dtype=" + dtype,
                             "variant=mma");
      const DType type = parse_dtype(dtype);
      with_executables({c}, [&](const Case&, const Executable& executable) {
        // The score is the product of the first elements of a query and a key.
        const double bound =
            std::min(std::pow(attention::small_cap_error * 120 / cap, 0.2) * cap, attention::max_small_score);
        test::AttentionArraysOnHost arrays(c.problem, 3);
        for (const char* name : {"q", "k"})
          for (std::int64_t i = 0; i < queries * dim; ++i) {
            const double share = static_cast<double>(i / dim) / (queries - 1) - 0.5;
            const double first = name[0] == 'q' ? share * 1.99 * bound : i / dim % 2 == 0 ? 1 : 0.5;
            write_element(type, arrays[name].data, i, i % dim == 0 ? static_cast<float>(first) : 0.0f);
          }
        const auto without_terms = [&](std::size_t offset, std::size_t bytes) {
          LaunchPlan plan = c.op().parse(c.problem)->launch_plan(c.config, device_.info());
          std::memset(plan.params.data() + offset, 0, bytes);
          return Executable(device_, executable.module(), plan);
        };
        const Executable no_two = without_terms(offsetof(attention::Params, cap_small_terms), 2 * sizeof(float)),
                         no_three = without_terms(offsetof(attention::Params, cap_lse_terms), 3 * sizeof(float));
        const auto outputs = [&](const Executable& kernels, bool lse) {
          std::vector<void*> addresses;
          for (const HostArray& array : arrays.all())
            addresses.push_back(array.info.name == "lse" && !lse ? nullptr : array.data);
          kernels.enqueue(addresses, nullptr);
          std::vector<double> o;
          for (std::int64_t i = 0; i < queries * dim; ++i) o.push_back(arrays.real("o", i));
          return o;
        };
        const std::vector<double> approximate = outputs(executable, false);
        EXPECT_NE(approximate, outputs(no_two, false)) << c.text();
        EXPECT_EQ(approximate, outputs(no_three, false)) << c.text();
        EXPECT_NE(outputs(executable, true), outputs(no_three, true)) << c.text();
        EXPECT_EQ(outputs(no_two, true), outputs(executable, true)) << c.text();
        const std::vector<double> accurate = outputs(executable, true);
        for (std::size_t i = 0; i < accurate.size(); ++i) EXPECT_NEAR(approximate[i], accurate[i], 0.02) << c.text();
        for (std::int64_t i = 0; i < queries; ++i) {
          const double q = arrays.real("q", i * dim);
          const double lse = std::log(static_cast<double>(keys) / 2 *
                                      (std::exp(cap * std::tanh(q / cap)) + std::exp(cap * std::tanh(q / 2 / cap))));
          EXPECT_NEAR(arrays.real("lse", i), lse, 1e-5 * std::fabs(lse) + 1e-6 + std::fabs(q) * 0x1p-20) << c.text();
        }
      });
    }
}

// One plan serves all steps of a training loop: a launch reads seed and offset from device memory.
TEST_F(AttentionHost, RngStateIsReadByEachLaunch) {
  const std::string fields = "seq_q=40,seq_kv=50,head_dim=16,heads=2,dtype=f32,dropout=0.5";
  const Case reads = case_of(fields + ",rng_state=1", ""), fixed = case_of(fields + ",dropout_seed=-3,dropout_offset=5", "");
  EXPECT_EQ(render(*reads.op().parse(reads.problem), reads.config), render(*fixed.op().parse(fixed.problem), fixed.config));
  const auto output_of = [](const Executable& executable, const test::AttentionArraysOnHost& arrays) {
    std::vector<void*> addresses;
    for (const HostArray& array : arrays.all()) addresses.push_back(array.data);
    executable.enqueue(addresses, nullptr);
    std::vector<double> o;
    for (std::int64_t i = 0; i < std::int64_t{40} * 2 * 16; ++i) o.push_back(arrays.real("o", i));
    return o;
  };
  std::vector<double> expected;
  with_executables({fixed}, [&](const Case& c, const Executable& executable) {
    expected = output_of(executable, test::AttentionArraysOnHost(c.problem, 3));
  });
  with_executables({reads}, [&](const Case& c, const Executable& executable) {
    const test::AttentionArraysOnHost arrays(c.problem, 3);
    const auto with_state = [&](std::int64_t seed, std::int64_t offset) {
      write_integer(DType::i64, arrays["rng_state"].data, 0, seed);
      write_integer(DType::i64, arrays["rng_state"].data, 1, offset);
      return output_of(executable, arrays);
    };
    EXPECT_EQ(with_state(-3, 5), expected);
    EXPECT_NE(with_state(-3, 6), expected);
    EXPECT_NE(with_state(-2, 5), expected);
    EXPECT_EQ(with_state(-3, 5), expected);
  });
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
