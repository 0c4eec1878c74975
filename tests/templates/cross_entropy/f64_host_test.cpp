// Numerics of cross-entropy in f64 on the host executor, compared with a reference in long double; and that the comparison
// rejects steps in float32.

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/half.h"
#include "tests/support/cases.h"
#include "tests/support/host_kernels.h"

namespace tunesmith {
namespace {

using test::Case;

class CrossEntropyF64Host : public test::HostKernels {
 protected:
  /// Verifies the cases and checks the largest error of each of their operations.
  void verify(const std::vector<Case>& cases) {
    const test::LargestErrors errors = verify_all(cases);
    std::set<std::string> ops;
    for (const Case& c : cases) ops.insert(c.problem.op);
    for (const std::string& op : ops) {
      EXPECT_LE(errors.float64(op), 0x1.0p-48) << op;
      EXPECT_GT(errors.float64(op), 0x1.0p-54) << op << ": the check found no rounding errors";
    }
  }
};

// More rows than one block reduces.
TEST_F(CrossEntropyF64Host, ReducesManyRows) {
  std::vector<Case> cases;
  for (const char* fields : {"rows=9001,cols=5,dtype=f64,num_correct=1,check_targets=1",
                             "rows=9001,cols=5,dtype=f64,weight=1,z_loss=0.01,gradient=in_place"})
    cases.push_back(test::case_of("cross_entropy", fields, device_.info(), ""));
  verify(cases);
}

TEST(CrossEntropyF64, ArraysOfNumbersAreOfF64) {
  const auto dtypes = [](std::string_view op, const char* fields) {
    std::string text;
    for (const ArrayInfo& info : find_op(op).parse(test::normalized(op, fields))->arrays())
      text += info.name + "=" + std::string(name(info.dtype)) + " ";
    return text;
  };
  EXPECT_EQ(
      dtypes("cross_entropy", "rows=2,cols=3,dtype=f64,weight=1,dloss=scalar,gradient=separate,z_loss=1,nll=1,argmax=1"),
      "logits=f64 targets=i64 weight=f64 dloss=f64 loss=f64 lse=f64 z_loss=f64 nll=f64 argmax=i64 dlogits=f64 ");
  EXPECT_EQ(dtypes("cross_entropy_backward", "rows=2,cols=3,dtype=f64,nll=1,weight=1,dlse=1"),
            "logits=f64 targets=i64 lse=f64 dloss=f64 nll=f64 weight=f64 dlse=f64 dlogits=f64 ");
  EXPECT_EQ(dtypes("cross_entropy_shard", "rows=2,cols=3,dtype=f64,weight=1"),
            "logits=f64 targets=i64 weight=f64 partials=f64 ");
  EXPECT_EQ(dtypes("cross_entropy_shard", "rows=2,cols=3,dtype=bf16,weight=1"),
            "logits=bf16 targets=i64 weight=f32 partials=f32 ");
  EXPECT_EQ(dtypes("cross_entropy_combine", "rows=2,shards=2,vocab_size=6,dtype=f64,z_loss=1,nll=1,argmax=1"),
            "partials=f64 targets=i64 loss=f64 lse=f64 z_loss=f64 nll=f64 argmax=i64 ");
  EXPECT_EQ(dtypes("cross_entropy_combine", "rows=2,shards=2,vocab_size=6"), "partials=f32 targets=i64 loss=f32 lse=f32 ");
  EXPECT_EQ(dtypes("cross_entropy_backward", "rows=2,cols=3,dtype=bf16,nll=1"),
            "logits=bf16 targets=i64 lse=f32 dloss=f32 nll=f32 dlogits=bf16 ");
}

/// The errors of a kernel that computes one step in float32.
enum class Mutation { none, sum, exponential, scale, lse, weight, dloss };

/// Returns whether the check accepts a loss with its gradient that were computed with this mutation.
bool accepts(Mutation mutation) {
  constexpr std::size_t rows = 17, cols = 300;
  const Problem problem = test::normalized(
      "cross_entropy", "rows=17,cols=300,dtype=f64,scale=0.3,weight=1,dloss=row,gradient=separate,reduction=none");
  const ParsedProblemPtr parsed = find_op("cross_entropy").parse(problem);
  const std::vector<ArrayInfo> infos = parsed->arrays();
  std::vector<std::vector<double>> storage(infos.size(), std::vector<double>(rows * cols));
  std::vector<HostArray> arrays;
  for (std::size_t i = 0; i < infos.size(); ++i)
    arrays.push_back({infos[i], reinterpret_cast<std::byte*>(storage[i].data())});
  parsed->fill_inputs(3, InputKind::random, arrays);
  const auto array = [&](std::string_view name) -> std::vector<double>& {
    for (std::size_t i = 0; i < infos.size(); ++i)
      if (infos[i].name == name) return storage[i];
    throw std::logic_error("no such array");
  };
  const auto step = [&](Mutation of, long double value) -> long double {
    return mutation == of ? static_cast<float>(value) : value;
  };
  const long double scale = step(Mutation::scale, 0.3);
  for (std::size_t row = 0; row < rows; ++row) {
    const double* const logits = &array("logits")[row * cols];
    const std::int64_t target = read_integer(DType::i64, reinterpret_cast<const std::byte*>(array("targets").data()),
                                             static_cast<std::int64_t>(row));
    long double sum = 0;
    for (std::size_t c = 0; c < cols; ++c)
      sum = step(Mutation::sum, sum + step(Mutation::exponential, std::exp(scale * logits[c])));
    const long double lse = step(Mutation::lse, std::log(sum));
    array("lse")[row] = static_cast<double>(lse);
    const bool ignored = target < 0;
    const long double weight = ignored ? 0 : step(Mutation::weight, array("weight")[static_cast<std::size_t>(target)]);
    const long double dloss = step(Mutation::dloss, array("dloss")[row]);
    array("loss")[row] = ignored ? 0 : static_cast<double>(weight * (lse - scale * logits[target]));
    for (std::size_t c = 0; c < cols; ++c) {
      const long double p = std::exp(scale * logits[c] - lse);
      const bool is_target = static_cast<std::int64_t>(c) == target;
      array("dlogits")[row * cols + c] = static_cast<double>(dloss * weight * scale * (p - (is_target ? 1 : 0)));
    }
  }
  return parsed->check(arrays, rows).passed;
}

TEST(CrossEntropyF64, StepsInFloat32AreRejected) {
  EXPECT_TRUE(accepts(Mutation::none));
  for (const Mutation mutation :
       {Mutation::sum, Mutation::exponential, Mutation::scale, Mutation::lse, Mutation::weight, Mutation::dloss})
    EXPECT_FALSE(accepts(mutation)) << static_cast<int>(mutation);
}

}  // namespace
}  // namespace tunesmith
