// Verification detects all kinds of wrong kernels.

#include "tuner/verify.h"

#include <array>
#include <cstddef>

#include "tests/tuner/fakes.h"

namespace tunesmith {
namespace {

using fakes::add_one;
using fakes::AddOneParams;

class Verify : public fakes::TunerTest {
 protected:
  /// Checks a kernel with 19 rows of 100 columns and a row stride of 104.
  CheckResult check(fakes::Kernel kernel, std::int64_t in_place = 0) {
    scripts[1].kernel = std::move(kernel);
    const Problem small =
        op.parse(fakes::add_one_problem(64, 100, {{"row_stride", std::int64_t{104}}, {"in_place", in_place}}))
            ->verification_problem();
    return verify(*op.parse(small), executable(small, 1), device, 1);
  }
  void expect_failure(fakes::Kernel kernel, const std::string& text, std::int64_t in_place = 0) {
    const CheckResult result = check(std::move(kernel), in_place);
    EXPECT_FALSE(result.passed);
    EXPECT_NE(result.first_failure.find(text), std::string::npos) << result.first_failure;
  }
};

TEST_F(Verify, CorrectKernelPasses) {
  const CheckResult result = check([](const AddOneParams& p, int) { add_one(p); });
  EXPECT_TRUE(result.passed) << result.first_failure;
  EXPECT_EQ(result.checked_rows, 19);
}

TEST_F(Verify, CorrectInPlaceKernelPasses) {
  const void *x = nullptr, *y = nullptr;
  const auto kernel = [&](const AddOneParams& p, int) {
    x = p.x;
    y = p.y;
    add_one(p);
  };
  const CheckResult result = check(kernel, 1);
  EXPECT_TRUE(result.passed) << result.first_failure;
  EXPECT_EQ(x, y);
  EXPECT_TRUE(check(kernel, 0).passed);
  EXPECT_NE(x, y);
}

TEST_F(Verify, DetectsAWrongElement) {
  expect_failure(
      [](const AddOneParams& p, int) {
        add_one(p);
        p.y[3 * p.row_stride + 7] += 1;
      },
      "y[3,7] is wrong");
  expect_failure(
      [](const AddOneParams& p, int) {
        add_one(p);
        p.y[18 * p.row_stride + 99] += 1;
      },
      "y[18,99] is wrong", 1);
}

TEST_F(Verify, DetectsAnElementThatIsNotWritten) {
  expect_failure(
      [](const AddOneParams& p, int) {
        const float before = p.y[5 * p.row_stride + 99];
        add_one(p);
        p.y[5 * p.row_stride + 99] = before;
      },
      "y[5,99] is not written");
}

TEST_F(Verify, DetectsAnElementThatIsNotWrittenWhereNaNIsCorrect) {
  expect_failure(
      [](const AddOneParams& p, int) {
        const float before = p.y[42];
        add_one(p);
        std::memcpy(p.y + 42, &before, sizeof before);
      },
      "y[0,42] is not written");
}

TEST_F(Verify, DetectsAWriteBeyondTheEnd) {
  expect_failure(
      [](const AddOneParams& p, int) {
        add_one(p);
        p.y[(p.rows - 1) * p.row_stride + p.cols] = 0;
      },
      "y: written 0 bytes beyond its last element");
  expect_failure(
      [](const AddOneParams& p, int) {
        add_one(p);
        p.y[(p.rows - 1) * p.row_stride + p.cols + 63] = 0;
      },
      "y: written 252 bytes beyond its last element");
}

TEST_F(Verify, DetectsAWriteBeforeTheStart) {
  expect_failure(
      [](const AddOneParams& p, int) {
        add_one(p);
        p.y[-1] = 0;
      },
      "y: written 4 bytes before its first element");
}

TEST_F(Verify, DetectsAWriteBetweenRows) {
  expect_failure(
      [](const AddOneParams& p, int) {
        add_one(p);
        p.y[2 * p.row_stride + p.cols + 1] = 0;
      },
      "y: written between its rows, 1 elements behind y[2,99]");
  expect_failure(
      [](const AddOneParams& p, int) {
        add_one(p);
        p.y[2 * p.row_stride + p.cols] = 0;
      },
      "x: written between its rows, 0 elements behind x[2,99]", 1);
}

TEST_F(Verify, DetectsAWriteToAnInput) {
  expect_failure(
      [](const AddOneParams& p, int) {
        add_one(p);
        const_cast<float*>(p.x)[4 * p.row_stride] = 0;
      },
      "x[4,0] is an input and was written");
}

TEST_F(Verify, DetectsARaceInTheSecondRun) {
  for (const std::int64_t in_place : {0, 1})
    expect_failure(
        [](const AddOneParams& p, int launch) {
          add_one(p);
          if (launch % 2 == 1) p.y[7] = 1;
        },
        "[0,7] differs between two runs", in_place);
}

TEST_F(Verify, DetectsStrayWritesOfTheSecondRun) {
  expect_failure(
      [](const AddOneParams& p, int launch) {
        add_one(p);
        if (launch % 2 == 1) p.y[-2] = 0;
      },
      "y: written 8 bytes before");
}

TEST_F(Verify, DetectsReadsOfGapsAndOfUnwrittenOutputs) {
  expect_failure(
      [](const AddOneParams& p, int) {
        add_one(p);
        p.y[3 * p.row_stride] += 0 * p.x[3 * p.row_stride + p.cols];
      },
      "y[3,0] is wrong");
}

// A workspace that need not keep its contents holds another plan's when a launch begins.
TEST_F(Verify, DetectsReadsOfAnUnwrittenWorkspace) {
  const Problem small = op.parse(problem)->verification_problem();
  const auto check_use = [&](WorkspaceUse use, std::size_t word) {
    LaunchPlan plan = op.parse(small)->launch_plan(fakes::AddOneOp::config(1), device.info());
    plan.workspace_bytes = 64;
    plan.workspace_offset = offsetof(AddOneParams, cols);  // which the kernel knows
    plan.workspace_use = use;
    scripts[1].kernel = [word](AddOneParams p, int) {
      const auto* const workspace = reinterpret_cast<const float*>(p.cols);
      p.cols = 100;
      add_one(p);
      p.y[p.row_stride + 3] += workspace[word] > 0 ? 1.0f : 0.0f;
    };
    Binary binary;
    binary.image = fakes::AddOneOp::config(1).text();
    return verify(*op.parse(small), Executable(device, device.load(binary), plan), device, 1).first_failure;
  };
  EXPECT_EQ(check_use(WorkspaceUse::own, 15), "");
  EXPECT_EQ(check_use(WorkspaceUse::zeros, 3), "");
  for (const auto& [use, word] :
       {std::pair(WorkspaceUse::zeros, 4), {WorkspaceUse::scratch, 0}, {WorkspaceUse::scratch, 15}})
    EXPECT_EQ(check_use(use, static_cast<std::size_t>(word)), "y[1,3] differs between two runs on the same input");
}

TEST_F(Verify, AddressesHaveExactlyThePromisedAlignment) {
  for (const std::int64_t alignment : {4, 8, 16}) {
    const Problem small = op.parse(fakes::add_one_problem(64, 100, {{"alignment", alignment}}))->verification_problem();
    std::uintptr_t x = 0;
    scripts[1].kernel = [&](const AddOneParams& p, int) {
      x = reinterpret_cast<std::uintptr_t>(p.x);
      add_one(p);
    };
    EXPECT_TRUE(verify(*op.parse(small), executable(small, 1), device, 1).passed);
    EXPECT_EQ(x % static_cast<std::uintptr_t>(2 * alignment), static_cast<std::uintptr_t>(alignment));
  }
}

TEST_F(Verify, ProblemWithoutWorkPasses) {
  const Problem none = fakes::add_one_problem(0, 100);
  EXPECT_TRUE(verify(*op.parse(none), executable(none, 1), device, 1).passed);
}

TEST_F(Verify, ThrowsAFault) {
  scripts[1].launch_fails = true;
  const Problem small = op.parse(problem)->verification_problem();
  const Executable failing = executable(small, 1);
  fakes::expect_error([&] { verify(*op.parse(small), failing, device, 1); }, ErrorCode::device_failed,
                      "launch of width 1 failed");
}

}  // namespace
}  // namespace tunesmith
