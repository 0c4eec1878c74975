// Numerics of the generated cross-entropy kernels on the host executor compared with float64, with poisoned outputs and
// canaries (tuner/verify.h).

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "templates/half.h"
#include "tests/support/host_kernels.h"
#include "tests/templates/cross_entropy/cases.h"
#include "tuner/device_memory.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::Case;

class CrossEntropyHost : public test::HostKernels {
 protected:
  void verify_all(const std::vector<Case>& cases) {
    with_executables(cases, [this](const Case& c, const Executable& executable) {
      const CheckResult result = verify(*c.op().parse(c.problem), executable, device_, 3);
      EXPECT_TRUE(result.passed) << c.text() << ": " << result.first_failure;
      worst_ = std::max(worst_, result.max_error / result.allowed_error);
    });
  }

  double worst_ = 0;
};

TEST_F(CrossEntropyHost, EveryOption) {
  std::vector<Case> cases;
  for (const Problem& problem : test::cross_entropy_problems())
    cases.push_back({problem, find_op(problem.op).parse(problem)->default_config(device_.info())});
  verify_all(cases);
  EXPECT_GT(worst_, 0.05) << "the check found no rounding errors";
}

TEST_F(CrossEntropyHost, EveryVariant) {
  const std::vector<Case> cases = test::cross_entropy_variants(device_.info());
  std::set<std::string> variants;
  for (const Case& c : cases) variants.insert(c.config.variant());
  EXPECT_EQ(variants, (std::set<std::string>{"warp", "block", "hybrid", "cluster", "grid", "two_pass", "split"}));
  verify_all(cases);
}

// Changes one element of every output by slightly more than the tolerance.
TEST_F(CrossEntropyHost, CheckDetectsOneWrongElement) {
  for (const char* fields :
       {"rows=25,cols=200,reduction=none,gradient=separate,z_loss=0.01,nll=1,argmax=1,num_correct=1,check_targets=1",
        "rows=25,cols=200,gradient=separate,z_loss=0.01,num_correct=1"}) {
    const Case c = test::case_of("cross_entropy", fields, device_.info(), "");
    std::vector<HostArray> arrays;
    std::vector<std::vector<std::byte>> contents;
    for (const ArrayInfo& info : c.op().parse(c.problem)->arrays())
      contents.emplace_back(info.extent_bytes(), std::byte{0xFF});
    for (std::size_t i = 0; i < contents.size(); ++i)
      arrays.push_back({c.op().parse(c.problem)->arrays()[i], contents[i].data()});
    c.op().parse(c.problem)->fill_inputs(7, InputKind::random, arrays);
    with_executables({c}, [&](const Case&, const Executable& executable) {
      std::vector<DeviceMemory> memory;
      std::vector<void*> addresses;
      for (const std::vector<std::byte>& content : contents) {
        memory.emplace_back(device_, content.size());
        device_.copy_to_device(memory.back().get(), content.data(), content.size());
        addresses.push_back(memory.back().get());
      }
      executable.enqueue(addresses, nullptr);
      device_.synchronize(nullptr);
      for (std::size_t i = 0; i < contents.size(); ++i)
        device_.copy_to_host(contents[i].data(), memory[i].get(), contents[i].size());
    });
    EXPECT_EQ(c.op().parse(c.problem)->check(arrays, 1000).first_failure, "");

    for (const HostArray& array : arrays) {
      if (!array.info.output) continue;
      const std::int64_t last = array.info.elements() - 1;
      const std::vector<std::byte> right(array.data, array.data + array.info.extent_bytes());
      if (array.info.dtype == DType::f32)
        write_element(DType::f32, array.data, last,
                      static_cast<float>(read_element(DType::f32, array.data, last) * (1 + 0x1.0p-14)));
      else
        write_integer(array.info.dtype, array.data, last, read_integer(array.info.dtype, array.data, last) + 1);
      const CheckResult result = c.op().parse(c.problem)->check(arrays, 1000);
      EXPECT_FALSE(result.passed) << array.info.name;
      EXPECT_EQ(result.first_failure.find(array.info.name), 0U) << result.first_failure;
      std::ranges::copy(right, array.data);
    }
  }
}

}  // namespace
}  // namespace tunesmith
