// Numerics of softmax, log_softmax and their gradients in f64 on the host executor, compared with a reference in long
// double; and that the comparison rejects sums and exponentials in float32.

#include <gtest/gtest.h>

#include <cmath>

#include "core/half.h"
#include "tests/support/host_kernels.h"
#include "tests/templates/softmax/launches.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using test::Case;

class SoftmaxF64Host : public test::HostKernels {
 protected:
  void verify(const std::vector<Case>& cases) {
    const test::LargestErrors errors = verify_all(cases);
    for (const std::string_view op : test::softmax_ops) {
      EXPECT_LE(errors.float64(op), 5.0) << op;  // units in the last place of double
      EXPECT_GT(errors.float64(op), 0.3) << op;
    }
  }
};

TEST_F(SoftmaxF64Host, EveryVariantOfEveryOperation) {
  std::vector<Case> cases;
  for (const std::string_view op : test::softmax_ops) {
    const std::string keep = op.ends_with("backward") ? "" : ",mask=add,mask_dtype=f32";
    for (const auto& [fields, config] :
         {std::pair<std::string, std::string>{"rows=19,cols=100,dtype=f64", "variant=warp,threads=64,lanes=8"},
          {"rows=19,cols=777,dtype=f64,scale=0.3", "variant=warp,threads=64,lanes=32,access=elements"},
          {"rows=19,cols=1500,dtype=f64" + keep, "variant=block,threads=96"},
          {"rows=17,cols=5001,dtype=f64,scale=3.7", "variant=hybrid,threads=256,register_vectors=2,min_blocks=1"},
          {"rows=17,cols=3001,dtype=f64", "variant=cluster,threads=96,blocks_per_row=3,register_vectors=2,min_blocks=1"},
          {"rows=17,cols=4000,dtype=f64,causal=1,safe=1",
           "variant=grid,threads=128,blocks_per_row=6,register_vectors=1,min_blocks=1"},
          {"rows=17,cols=2999,dtype=f64" + keep, "variant=two_pass,threads=128,unroll=2"},
          {"rows=17,cols=2999,dtype=f64", "variant=split,threads=64,unroll=1,blocks_per_row=7"}})
      cases.push_back(case_of(op, fields, config));
  }
  verify(cases);
}

TEST(SoftmaxF64, AllowsNoOtherDtypesWithIt) {
  const auto error_of = [](std::string_view op, const char* fields) -> std::string {
    try {
      test::normalized(op, fields);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of("softmax", "rows=1,cols=8,dtype=f64,out_dtype=f32"),
            "out_dtype is f32, but dtype is f64; allowed: f64");
  EXPECT_EQ(error_of("log_softmax_backward", "rows=1,cols=8,dtype=bf16,out_dtype=f64"),
            "out_dtype is f64, but dtype is bf16; allowed: f32, f16, bf16");
  EXPECT_EQ(error_of("softmax", "rows=1,cols=8,mask=add,mask_dtype=f64"),
            "mask_dtype is f64, but dtype is f32; allowed: f32, f16, bf16");
}

// The scale of f64 is not rounded to float32.
TEST(SoftmaxF64, KeepsTheScale) {
  EXPECT_EQ(test::normalized("softmax", "rows=1,cols=8,dtype=f64,scale=0.1").fields.real("scale"), 0.1);
  EXPECT_NE(test::normalized("softmax", "rows=1,cols=8,scale=0.1").fields.real("scale"), 0.1);
}

/// The errors of a kernel that computes one step in float32.
enum class Mutation { none, sum, exponential, scale };

/// Returns whether the check accepts results of `op` that were computed with this mutation.
bool accepts(std::string_view op, Mutation mutation) {
  const Problem problem = test::normalized(op, "rows=17,cols=500,dtype=f64,scale=0.3");
  const ParsedProblemPtr parsed = find_op(op).parse(problem);
  const bool backward = op.ends_with("backward"), logarithm = op.starts_with("log");
  const std::vector<ArrayInfo> infos = parsed->arrays();
  std::vector<std::vector<double>> storage(infos.size(), std::vector<double>(17 * 500));
  std::vector<HostArray> arrays;
  for (std::size_t i = 0; i < infos.size(); ++i)
    arrays.push_back({infos[i], reinterpret_cast<std::byte*>(storage[i].data())});
  parsed->fill_inputs(3, InputKind::random, arrays);
  const auto step = [&](Mutation of, long double value) -> long double {
    return mutation == of ? static_cast<float>(value) : static_cast<double>(value);
  };
  const double scale = mutation == Mutation::scale ? static_cast<double>(0.3F) : 0.3;
  for (std::size_t row = 0; row < 17; ++row) {
    const double* const first = &storage[0][row * 500];
    const double* const second = &storage[1][row * 500];
    double* const out = &storage.back()[row * 500];
    long double largest = -INFINITY, sum = 0;
    for (int c = 0; c < 500; ++c) largest = std::max<long double>(largest, first[c]);
    const auto power = [&](int c) { return step(Mutation::exponential, std::exp(scale * (first[c] - largest))); };
    const auto probability = [&](int c) {
      return step(Mutation::exponential, std::exp(static_cast<long double>(second[c])));
    };
    for (int c = 0; c < 500; ++c) {
      const long double term = !backward ? power(c) : logarithm ? first[c] : static_cast<long double>(first[c]) * second[c];
      sum = mutation == Mutation::sum ? static_cast<float>(sum + term) : sum + term;
    }
    for (int c = 0; c < 500; ++c) {
      const long double result =
          backward ? (logarithm ? scale * (first[c] - probability(c) * sum) : scale * second[c] * (first[c] - sum))
                   : (logarithm ? scale * (first[c] - largest) - std::log(sum) : power(c) / sum);
      out[c] = static_cast<double>(result);
    }
  }
  return parsed->check(arrays, 17).passed;
}

TEST(SoftmaxF64, StepsInFloat32AreRejected) {
  for (const std::string_view op : test::softmax_ops) {
    EXPECT_TRUE(accepts(op, Mutation::none)) << op;
    EXPECT_FALSE(accepts(op, Mutation::sum)) << op;
    EXPECT_FALSE(accepts(op, Mutation::scale)) << op;
    if (op != "softmax_backward") {  // it has none
      EXPECT_FALSE(accepts(op, Mutation::exponential)) << op;
    }
  }
}

}  // namespace
}  // namespace tunesmith
