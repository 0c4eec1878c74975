// softmax, log_softmax and their gradients in f64: that the comparison with a reference in long double rejects
// sums and exponentials in float32.

#include <gtest/gtest.h>

#include <cmath>

#include "core/half.h"
#include "tests/support/cases.h"

namespace tunesmith {
namespace {

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
