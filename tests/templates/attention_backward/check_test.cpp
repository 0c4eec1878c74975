// The check of gradients accepts what the kernels round, and nothing more.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "core/half.h"
#include "templates/render.h"
#include "tests/support/cases.h"
#include "tests/templates/attention/mods.h"

namespace tunesmith {
namespace {

using test::AttentionArraysOnHost;

constexpr std::int64_t checked_keys = 2, checked_width = 8;

double rounded(DType dtype, double value) {
  std::array<std::byte, 4> bytes{};
  write_element(dtype, bytes.data(), 0, value);
  return read_element(dtype, bytes.data(), 0);
}

/// Writes the gradients of one query. `round`: what the kernel does to P and dS.
template <typename Round>
void write_gradients(const AttentionArraysOnHost& arrays, const Round& round) {
  const DType dtype = arrays["q"].info.dtype;
  const double scale = 1 / std::sqrt(double{checked_width});
  double delta = 0;
  for (std::int64_t c = 0; c < checked_width; ++c) delta += arrays.real("o", c) * arrays.real("dout", c);
  std::array<double, checked_width> dq{};
  for (std::int64_t key = 0; key < checked_keys; ++key) {
    double score = 0, product = 0;
    for (std::int64_t c = 0; c < checked_width; ++c) {
      score += scale * arrays.real("q", c) * arrays.real("k", key * checked_width + c);
      product += arrays.real("dout", c) * arrays.real("v", key * checked_width + c);
    }
    const double p = round(std::exp(score - arrays.real("lse", 0)));
    const double ds = round(p * (product - delta));
    for (std::int64_t c = 0; c < checked_width; ++c) {
      const std::int64_t at = key * checked_width + c;
      dq[static_cast<std::size_t>(c)] += scale * ds * arrays.real("k", at);
      write_element(dtype, arrays["dk"].data, at, scale * ds * arrays.real("q", c));
      write_element(dtype, arrays["dv"].data, at, p * arrays.real("dout", c));
    }
  }
  for (std::int64_t c = 0; c < checked_width; ++c)
    write_element(dtype, arrays["dq"].data, c, dq[static_cast<std::size_t>(c)]);
}

// Sizes of 1 hide strides, which the small problem of the tuner then has: its arrays must not allow wider accesses.
TEST(AttentionBackwardCheck, VerifiedKernelsAreThoseThatAreLaunched) {
  for (const char* fields :
       {"seq_q=14,head_dim=8,q_head_stride=8,q_seq_stride=11,q_batch_stride=154", "seq_q=1,head_dim=8,q_head_stride=9",
        "seq_q=14,head_dim=24,heads=2,k_head_stride=28,k_seq_stride=60",
        "seq_q=9,head_dim=16,o_alignment=4,dq_seq_stride=18",
        "seq_q=9,head_dim=16,dtype=f32,dk_seq_stride=17,v_seq_stride=0",
        "seq_q=7,head_dim=8,layout=bhsd,dout_seq_stride=10"}) {
    const Problem problem = test::normalized("attention_backward", fields);
    const ParsedProblemPtr large = find_op("attention_backward").parse(problem),
                           small = find_op("attention_backward").parse(large->verification_problem());
    const DeviceInfo device = generic_device(parse_arch("sm_80"));
    EXPECT_EQ(find_op("attention_backward").normalize(small->problem()), small->problem()) << fields;
    const Config config = large->default_config(device);
    EXPECT_EQ(render(*large, config), render(*small, config)) << fields;
  }
}

// The bound of infinite inputs is NaN.
TEST(AttentionBackwardCheck, AcceptsNaNWhereItIsRight) {
  const Problem problem = test::normalized("attention_backward", "seq_q=1,seq_kv=2,head_dim=8,dtype=bf16");
  const AttentionArraysOnHost arrays(problem, 1);
  write_element(DType::bf16, arrays["dout"].data, 0, INFINITY);
  for (const char* name : {"dq", "dk", "dv"})
    for (std::int64_t i = 0; i < arrays[name].info.elements(); ++i) write_element(DType::bf16, arrays[name].data, i, NAN);
  const CheckResult result = find_op("attention_backward").parse(problem)->check(arrays.all(), 1000);
  EXPECT_EQ(result.first_failure.find("dq"), std::string::npos) << result.first_failure;
}

// With few terms, roundings reach their bounds, and sums that are just below a power of two are rounded above it.
TEST(AttentionBackwardCheck, AcceptsTheRoundingsOfTheKernels) {
  for (const char* dtype : {"bf16", "f16"}) {
    const Problem problem =
        test::normalized("attention_backward", std::string("seq_q=1,seq_kv=2,head_dim=8,dtype=") + dtype);
    const ParsedProblemPtr parsed = find_op("attention_backward").parse(problem);
    const DType type = parse_dtype(dtype);
    const double half_unit = type == DType::bf16 ? 0x1p-8 : 0x1p-11;  // relative to the least number of a binade
    std::size_t found = 0;
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
      const AttentionArraysOnHost arrays(problem, seed);
      const auto check = [&](const auto& round) {
        write_gradients(arrays, round);
        return parsed->check(arrays.all(), 1000);
      };
      for (const CheckResult& result :
           {check([&](double x) { return rounded(type, x); }), check([&](double x) { return x * (1 + half_unit); }),
            check([&](double x) { return x * (1 - half_unit); })})
        ASSERT_TRUE(result.passed) << dtype << ", seed " << seed << ": " << result.first_failure;
      if (!check([&](double x) { return rounded(type, x * (1 + 4 * half_unit)); }).passed) ++found;
    }
    EXPECT_EQ(found, 2000U) << dtype << ": roundings to two bits fewer";
  }
}

}  // namespace
}  // namespace tunesmith
