// Cross-entropy on the host executor, also over a dimension that is not the last: what tests/templates/rows does not draw.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/half.h"
#include "tests/support/cases.h"
#include "tests/support/host_kernels.h"
#include "tuner/device_memory.h"

namespace tunesmith {
namespace {

using test::Case;

class CrossEntropyHost : public test::HostKernels {
 protected:
  /// Runs a case on arrays that `fill` writes, and returns them.
  template <typename Fill>
  std::vector<std::vector<std::byte>> run(const Case& c, const Fill& fill) {
    std::vector<std::vector<std::byte>> contents;
    with_executables({c}, [&](const Case&, const Executable& executable) {
      const std::vector<ArrayInfo> infos = c.op().parse(c.problem)->arrays();
      std::vector<DeviceMemory> memory;
      std::vector<void*> addresses;
      for (const ArrayInfo& info : infos) {
        std::vector<std::byte>& content = contents.emplace_back(static_cast<std::size_t>(info.extent_bytes()));
        fill(HostArray{info, content.data()});
        memory.emplace_back(device_, content.size());
        device_.copy_to_device(memory.back().get(), content.data(), content.size());
        addresses.push_back(memory.back().get());
      }
      executable.enqueue(addresses, nullptr);
      device_.synchronize(nullptr);
      for (std::size_t i = 0; i < contents.size(); ++i)
        device_.copy_to_host(contents[i].data(), memory[i].get(), contents[i].size());
    });
    return contents;
  }
};

// Logits with a row stride of 0 are one row that every target is looked up in.
TEST_F(CrossEntropyHost, BroadcastLogitsGiveTheLossesOfCopies) {
  const auto losses = [&](const char* more) {
    return run(case_of("cross_entropy", std::string("rows=9,cols=300,reduction=none") + more, "variant=warp"),
               [](const HostArray& array) {
                 for (std::int64_t i = 0; array.info.name == "logits" && i < array.info.extent_bytes() / 4; ++i)
                   write_element(DType::f32, array.data, i, static_cast<float>(i % 300 * 7 % 31) / 8);
                 for (std::int64_t i = 0; array.info.name == "targets" && i < 9; ++i)
                   write_integer(array.info.dtype, array.data, i, 13 * i);
               })[2];
  };
  const std::vector<std::byte> broadcast = losses(",logits_row_stride=0");
  EXPECT_EQ(broadcast, losses(""));
  EXPECT_NE(read_element(DType::f32, broadcast.data(), 0), read_element(DType::f32, broadcast.data(), 1));
}

// The one row of broadcast logits is written once, not by every row, which may belong to another thread.
TEST_F(CrossEntropyHost, BroadcastInputsDoNotDependOnTheNumberOfRows) {
  std::vector<std::vector<std::byte>> logits;
  for (const char* rows : {"rows=1", "rows=64", "rows=64"}) {
    const Problem fields = test::normalized("cross_entropy", std::string(rows) + ",cols=20000,logits_row_stride=0");
    const ParsedProblemPtr problem = find_op("cross_entropy").parse(fields);
    std::vector<std::vector<std::byte>> contents;
    std::vector<HostArray> arrays;
    for (const ArrayInfo& info : problem->arrays()) contents.emplace_back(static_cast<std::size_t>(info.extent_bytes()));
    for (std::size_t a = 0; a < contents.size(); ++a) arrays.push_back({problem->arrays()[a], contents[a].data()});
    problem->fill_inputs(5, InputKind::edge_cases, arrays);
    logits.push_back(contents[0]);
    EXPECT_EQ(logits.back().size(), 80000U);
    EXPECT_EQ(logits.back(), logits.front()) << rows;
  }
}

// Losses and gradients of (rows, cols, inner) equal those for the same logits as rows of adjacent columns.
TEST_F(CrossEntropyHost, AgreesWithAdjacentColumns) {
  constexpr std::int64_t rows = 3, cols = 30, inner = 4;
  const char* const options = ",reduction=none,gradient=separate,nll=1,argmax=1,label_smoothing=0.1";
  const auto fill = [&](const HostArray& array) {
    const bool strided = array.info.shape.size() == 3;
    if (array.info.name == "targets")
      for (std::int64_t i = 0; i < rows * inner; ++i) write_integer(array.info.dtype, array.data, i, i * 7 % (cols + 1));
    for (std::int64_t i = 0; array.info.name == "logits" && i < rows * cols * inner; ++i) {
      const std::int64_t row = i / cols, column = i % cols;
      const std::int64_t at = strided ? (row / inner * cols + column) * inner + row % inner : i;
      write_element(DType::f32, array.data, at, static_cast<float>(i * 37 % 101) / 8);
    }
  };
  const auto strided =
      run(case_of("cross_entropy", std::string("rows=3,cols=30,inner=4") + options, "variant=resident"), fill);
  const auto adjacent = run(case_of("cross_entropy", std::string("rows=12,cols=30") + options, "variant=warp"), fill);
  ASSERT_EQ(strided.size(), adjacent.size());
  for (std::size_t a = 2; a + 1 < strided.size(); ++a)
    for (std::int64_t i = 0; i < rows * inner; ++i) {
      const double left = read_element(DType::f32, strided[a].data(), i),
                   right = read_element(DType::f32, adjacent[a].data(), i);
      EXPECT_TRUE(std::isnan(left) ? std::isnan(right) : std::fabs(left - right) <= 1e-5 * std::fabs(right))
          << a << " " << i;
    }
  for (std::int64_t i = 0; i < rows * cols * inner; ++i) {
    const std::int64_t row = i / cols, column = i % cols;
    EXPECT_NEAR(read_element(DType::f32, strided.back().data(), (row / inner * cols + column) * inner + row % inner),
                read_element(DType::f32, adjacent.back().data(), i), 1e-6)
        << i;
  }
}

// In place, with the target in every column: the thread that has it must find it.
TEST_F(CrossEntropyHost, FindsTheTargetInEveryColumn) {
  for (const char* config :
       {"variant=resident,threads=64,lanes=8", "variant=cluster,threads=64,lanes=8,blocks_per_row=3",
        "variant=two_pass,threads=64,lanes=8,unroll=2", "variant=split,threads=64,lanes=16,unroll=2,blocks_per_row=4"}) {
    const Case c = case_of("cross_entropy", "rows=1,cols=50,inner=52,gradient=in_place,reduction=none", config);
    std::vector<std::byte> logits;
    const auto fill = [&](const HostArray& array) {
      for (std::int64_t i = 0; array.info.name == "targets" && i < 52; ++i)
        write_integer(array.info.dtype, array.data, i, i % 50);
      for (std::int64_t i = 0; array.info.name == "logits" && i < 50 * 52; ++i)
        write_element(DType::f32, array.data, i, static_cast<float>(i % 97) / 16);
    };
    const auto results = run(c, fill);
    const auto logit = [](std::int64_t column, std::int64_t p) { return static_cast<double>((column * 52 + p) % 97) / 16; };
    for (std::int64_t p = 0; p < 52; ++p) {
      double sum = 0;
      for (std::int64_t column = 0; column < 50; ++column) sum += std::exp(logit(column, p));
      const double target = logit(p % 50, p);
      EXPECT_NEAR(read_element(DType::f32, results[2].data(), p), std::log(sum) - target, 1e-5) << config << " " << p;
      EXPECT_NEAR(read_element(DType::f32, results.back().data(), p % 50 * 52 + p), std::exp(target) / sum - 1, 1e-6)
          << config << " " << p;
    }
  }
}

// Changes one element of every output by slightly more than the tolerance.
TEST_F(CrossEntropyHost, CheckDetectsOneWrongElement) {
  for (const char* fields :
       {"rows=25,cols=200,reduction=none,gradient=separate,z_loss=0.01,nll=1,argmax=1,num_correct=1,check_targets=1",
        "rows=25,cols=200,gradient=separate,z_loss=0.01,num_correct=1",
        "rows=3,cols=20,inner=10,reduction=none,gradient=separate,z_loss=0.01,nll=1,argmax=1,num_correct=1,check_targets=1,"
        "mark_ignored=1"}) {
    const Case c = case_of("cross_entropy", fields, "");
    const ParsedProblemPtr problem = c.op().parse(c.problem);
    std::vector<std::vector<std::byte>> inputs;
    std::vector<HostArray> arrays;
    for (const ArrayInfo& info : problem->arrays()) inputs.emplace_back(info.extent_bytes(), std::byte{0xFF});
    for (std::size_t i = 0; i < inputs.size(); ++i) arrays.push_back({problem->arrays()[i], inputs[i].data()});
    problem->fill_inputs(7, InputKind::random, arrays);
    std::size_t next = 0;
    std::vector<std::vector<std::byte>> results =
        run(c, [&](const HostArray& array) { std::ranges::copy(inputs[next++], array.data); });
    for (std::size_t i = 0; i < results.size(); ++i) arrays[i].data = results[i].data();
    EXPECT_EQ(problem->check(arrays, 1000).first_failure, "");

    for (const HostArray& array : arrays) {
      if (!array.info.output) continue;
      const std::int64_t last = array.info.elements() - 1;
      const std::vector<std::byte> right(array.data, array.data + array.info.extent_bytes());
      if (array.info.dtype == DType::f32)
        write_element(DType::f32, array.data, last,
                      static_cast<float>(read_element(DType::f32, array.data, last) * (1 + 0x1.0p-14)));
      else
        write_integer(array.info.dtype, array.data, last, read_integer(array.info.dtype, array.data, last) + 1);
      const CheckResult result = problem->check(arrays, 1000);
      EXPECT_FALSE(result.passed) << array.info.name;
      EXPECT_EQ(result.first_failure.find(array.info.name), 0U) << result.first_failure;
      std::ranges::copy(right, array.data);
    }
  }
}

}  // namespace
}  // namespace tunesmith
