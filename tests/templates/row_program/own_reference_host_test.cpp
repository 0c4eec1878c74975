// Row programs on the host executor whose results these tests compute themselves: chosen columns by a sort, soft labels as
// in PyTorch, random numbers by the function for the host.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "core/half.h"
#include "templates/row_program/evaluate/random.h"
#include "tests/templates/row_program/host_outputs.h"
#include "tests/templates/row_program/op_cases.h"

namespace tunesmith {
namespace {

using test::Case;
using test::row_program_cases;
using test::row_program_text;

using RowProgramHost = test::RowProgramHost;

// topk against a sort, in every variant that has room: exact values, ties, infinities and NaN; rows that end within a
// vector.
TEST_F(RowProgramHost, TopkIsThatOfASortInEveryVariant) {
  const std::vector<const char*> configs{"variant=warp,lanes=1,threads=32",
                                         "variant=warp,lanes=8,threads=64",
                                         "variant=warp,lanes=32,threads=64",
                                         "variant=block,threads=96",
                                         "variant=hybrid,threads=32,register_vectors=1",
                                         "variant=two_pass,threads=64,unroll=2",
                                         "variant=two_pass,threads=32,unroll=1",  // up to eight tiles
                                         "variant=cluster,threads=32,blocks_per_row=3",
                                         "variant=grid,threads=32,blocks_per_row=2",
                                         "variant=persistent,threads=64,blocks_per_row=1,stages=2,batch=2,keep_columns=0",
                                         "variant=persistent,threads=32,blocks_per_row=2,stages=3,batch=1,keep_columns=0"};
  std::set<std::string> variants;
  std::size_t tried = 0;
  for (const int k : {1, 2, 3, 8, 13, 64})
    for (const int cols : {64, 203, 1024}) {
      const std::string text = "in x : f32[row, col]\ntopk[" + std::to_string(k) +
                               "] v, i, w = x, x * 2\nout value : f32[row, " + std::to_string(k) +
                               "] = v\nout column : i32[row, " + std::to_string(k) + "] = i\nout twice : f32[row, " +
                               std::to_string(k) + "] = w\n";
      constexpr int rows = 6;
      const auto at = [&](int row, int column) {
        return static_cast<std::size_t>(row) * static_cast<std::size_t>(cols) + static_cast<std::size_t>(column);
      };
      std::vector<float> x(rows * static_cast<std::size_t>(cols));
      std::uint32_t state = 9;
      for (float& value : x) value = static_cast<float>((state = state * 1664525U + 1013904223U) >> 8) - 8e6F;
      for (int c = 0; c < cols; ++c) {
        x[at(1, c)] = static_cast<float>(c * 7 % 5) - 2;  // ties, and both zeros
        if (c % 3 == 0 && x[at(1, c)] == 0) x[at(1, c)] = -0.0F;
        x[at(2, c)] = static_cast<float>(c);  // every column is inserted
        x[at(3, c)] = -static_cast<float>(c);
        if (c % 4 != 1) x[at(4, c)] = -INFINITY;
        if (c % 11 == 5) x[at(5, c)] = c % 2 == 0 ? NAN : INFINITY;
      }
      std::vector<std::byte> bytes(x.size() * sizeof(float));
      std::memcpy(bytes.data(), x.data(), bytes.size());
      const auto cases = row_program_cases(text, "rows=6,cols=" + std::to_string(cols), device_.info(), configs);
      for (const Case& c : cases) variants.insert(c.config.variant());
      tried += cases.size();
      with_executables(cases, [&](const Case& c, const Executable& executable) {
        const auto outputs = outputs_of(executable, c, {bytes});
        for (int row = 0; row < rows; ++row) {
          std::vector<int> order(static_cast<std::size_t>(cols));
          std::iota(order.begin(), order.end(), 0);
          const auto level = [&](int column) {
            const float value = x[at(row, column)];
            return std::pair(std::isnan(value), std::isnan(value) ? 0 : value);
          };
          std::ranges::stable_sort(order, [&](int a, int b) { return level(b) < level(a); });
          for (int rank = 0; rank < k; ++rank) {
            const int column = order[static_cast<std::size_t>(rank)];
            const auto wanted = static_cast<double>(x[at(row, column)]);
            const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
            ASSERT_EQ(read_element(DType::i32, outputs[1].data(), row * k + rank), column)
                << c.text() << " row " << row << " rank " << rank;
            ASSERT_TRUE(same(read_element(DType::f32, outputs[0].data(), row * k + rank), wanted)) << c.text();
            ASSERT_TRUE(same(read_element(DType::f32, outputs[2].data(), row * k + rank), 2 * wanted)) << c.text();
          }
        }
      });
    }
  EXPECT_EQ(variants, (std::set<std::string>{"block", "cluster", "grid", "hybrid", "persistent", "two_pass", "warp"}));
  EXPECT_GE(tried, 100U);
}

// Soft labels in every variant: the losses and gradients of torch.nn.functional.cross_entropy, masked classes and rows
// without a finite logit included.
TEST_F(RowProgramHost, SoftCrossEntropyIsThatOfPyTorchInEveryVariant) {
  constexpr int rows = 7, cols = 203;
  const std::vector<const char*> configs{"variant=warp,lanes=8,threads=64",
                                         "variant=block,threads=96",
                                         "variant=hybrid,threads=32,register_vectors=1",
                                         "variant=two_pass,threads=64,unroll=2",
                                         "variant=cluster,threads=32,blocks_per_row=3",
                                         "variant=grid,threads=32,blocks_per_row=2",
                                         "variant=persistent,threads=64,blocks_per_row=1,stages=2,batch=2,keep_columns=0"};
  std::vector<float> logits(rows * cols), p(rows * cols);
  const auto at = [](int row, int column) {
    return static_cast<std::size_t>(row) * std::size_t{cols} + static_cast<std::size_t>(column);
  };
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    for (int c = 0; c < cols; ++c) {
      logits[at(r, c)] = 4 * std::sin(static_cast<float>(r * 7 + c * 3)) + (r == 1 ? 1e4F : 0);
      p[at(r, c)] = std::exp(2 * std::cos(static_cast<float>(c * 5 + r)));
      if (r == 2) p[at(r, c)] = c == 77 ? 1 : 0;  // a class index as probabilities
      if ((r == 3 || r == 4) && c % 5 == 1) logits[at(r, c)] = -INFINITY;
      if (r == 3 && c % 5 == 1) p[at(r, c)] = 0;
      if (r == 5) logits[at(r, c)] = -INFINITY;
      sum += p[at(r, c)];
    }
    for (int c = 0; c < cols; ++c) p[at(r, c)] = static_cast<float>(p[at(r, c)] / sum);
  }
  logits[at(6, 202)] = INFINITY;
  const auto bytes_of = [](const std::vector<float>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  };
  const std::vector<float> dloss(rows, 0.5F), dlse(rows, 0.25F);
  std::set<std::string> variants;
  for (const double smoothing : {0.0, 0.125}) {
    const std::string fields = "rows=7,cols=203,numbers=label_smoothing=" + std::to_string(smoothing);
    const auto share = [&](int r, int c) { return static_cast<double>(p[at(r, c)]) * (1 - smoothing) + smoothing / cols; };
    const auto lse_of = [&](int r) {
      double largest = -INFINITY, sum = 0;
      for (int c = 0; c < cols; ++c) largest = std::max<double>(largest, logits[at(r, c)]);
      for (int c = 0; c < cols; ++c) sum += std::exp(logits[at(r, c)] - largest);
      return largest + std::log(sum);
    };
    // At most 1e4 in a logit: units of 2^-10, which each difference from lse has once.
    const auto tolerance = [](int r) { return r == 1 ? 0x1p-9 : 1e-5; };
    auto cases = row_program_cases(row_program_text("shipped soft_cross_entropy"), fields, device_.info(), configs);
    for (const Case& c : cases) variants.insert(c.config.variant());
    EXPECT_EQ(cases.size(), configs.size());
    with_executables(cases, [&](const Case& c, const Executable& executable) {
      const auto outputs = outputs_of(executable, c, {bytes_of(logits), bytes_of(p)});
      for (int r = 0; r < rows; ++r) {
        const double loss = read_element(DType::f32, outputs[0].data(), r);
        const double lse = read_element(DType::f32, outputs[1].data(), r);
        if (r == 3 || r == 4) {  // 0 * inf, as in PyTorch, unless label smoothing leaves no probability at 0
          EXPECT_TRUE(r == 3 && smoothing == 0 ? std::isnan(loss) : loss == INFINITY)
              << c.text() << " " << r << ": " << loss;
          EXPECT_NEAR(lse, lse_of(r), 1e-6);
        } else if (r >= 5) {
          EXPECT_TRUE(std::isnan(loss)) << c.text() << " row " << r << ": " << loss;
          EXPECT_EQ(lse, r == 5 ? -INFINITY : INFINITY);
        } else {
          double expected = 0;
          for (int k = 0; k < cols; ++k) expected += share(r, k) * (lse_of(r) - logits[at(r, k)]);
          EXPECT_NEAR(loss, expected, tolerance(r)) << c.text() << " row " << r;
          EXPECT_NEAR(lse, lse_of(r), tolerance(r)) << c.text() << " row " << r;
        }
      }
    });
    cases = row_program_cases(row_program_text("shipped soft_cross_entropy_gradient"), fields, device_.info(), configs);
    EXPECT_EQ(cases.size(), configs.size());
    with_executables(cases, [&](const Case& c, const Executable& executable) {
      const auto outputs = outputs_of(executable, c, {bytes_of(logits), bytes_of(p), bytes_of(dloss), bytes_of(dlse)});
      for (int r = 0; r < rows; ++r) {
        double total = 0;
        for (int k = 0; k < cols; ++k) total += share(r, k);
        for (int k = 0; k < cols; ++k) {
          const double dlogit = read_element(DType::f32, outputs[0].data(), static_cast<std::int64_t>(at(r, k)));
          const double dp = read_element(DType::f32, outputs[1].data(), static_cast<std::int64_t>(at(r, k)));
          if (r >= 5) {
            if (r == 5 || k == 202) {
              EXPECT_TRUE(std::isnan(dlogit)) << c.text() << " row " << r << " column " << k;
            }
            continue;
          }
          const double x = logits[at(r, k)], probability = std::exp(x - lse_of(r));
          EXPECT_NEAR(dlogit, 0.5 * (probability * total - share(r, k)) + 0.25 * probability, tolerance(r)) << c.text();
          if (std::isinf(x)) {
            EXPECT_EQ(dp, INFINITY) << c.text();
          } else {
            EXPECT_NEAR(dp, 0.5 * (1 - smoothing) * (lse_of(r) - x), tolerance(r)) << c.text();
          }
        }
      }
    });
  }
  EXPECT_EQ(variants, (std::set<std::string>{"block", "cluster", "grid", "hybrid", "persistent", "two_pass", "warp"}));
}

// Equal numbers in every configuration: a mask of dropout depends on the seed, the row and the column alone. Elements of
// whole vectors share computations, also of numbers that only some elements need.
TEST_F(RowProgramHost, RandomNumbersDoNotDependOnTheConfiguration) {
  const std::string text =
      "in x : f32[row, col]\nnum seed : i32\nsum total = select(x > 0, uniform(seed, 3), 0)\n"
      "out y : f32[row, col] = select(x > 0, uniform(seed, 3), -uniform(seed, 9)) + 0 * total\n";
  for (const int cols : {777, 776}) {
    std::vector<Case> cases = row_program_cases(
        text, "rows=7,cols=" + std::to_string(cols) + ",numbers=seed=-5", device_.info(),
        {"variant=warp,lanes=32", "variant=block,threads=96", "variant=two_pass,threads=64",
         "variant=cluster,threads=32,blocks_per_row=3", "variant=persistent,threads=32,blocks_per_row=2,stages=2,batch=2",
         "variant=hybrid,threads=32,register_vectors=1", "variant=grid,threads=32,blocks_per_row=2",
         "variant=warp,lanes=8,threads=64,access=staged"});
    ASSERT_GE(cases.size(), cols == 777 ? 8U : 7U);  // rows of whole vectors are not staged
    std::vector<float> x(7 * static_cast<std::size_t>(cols));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = i * i % 7 < 3 ? 1.0F : -1.0F;
    std::vector<std::byte> bytes(x.size() * sizeof(float));
    std::memcpy(bytes.data(), x.data(), bytes.size());
    with_executables(cases, [&](const Case& c, const Executable& executable) {
      const std::vector<std::byte> result = outputs_of(executable, c, {bytes})[0];
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i) / cols, column = static_cast<std::int64_t>(i) % cols;
        ASSERT_EQ(read_element(DType::f32, result.data(), static_cast<std::int64_t>(i)),
                  x[i] > 0 ? row_program::uniform(-5, row, column, 3) : -row_program::uniform(-5, row, column, 9))
            << c.text() << " row " << row << " column " << column;
      }
    });
  }
}

}  // namespace
}  // namespace tunesmith
