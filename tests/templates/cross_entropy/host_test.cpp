// Numerics of the generated cross-entropy kernels on the host executor compared with float64, with poisoned outputs and
// canaries (tuner/verify.h).

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/half.h"
#include "tests/support/host_kernels.h"
#include "tests/templates/cross_entropy/cases.h"
#include "tuner/device_memory.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::Case;

class CrossEntropyHost : public test::HostKernels {};

TEST_F(CrossEntropyHost, EveryVariant) {
  const std::vector<Case> cases = test::cross_entropy_variants(device_.info());
  std::set<std::string> variants;
  for (const Case& c : cases) variants.insert(c.config.variant());
  EXPECT_EQ(variants,
            (std::set<std::string>{"warp", "block", "hybrid", "cluster", "grid", "two_pass", "split", "pipeline"}));
  verify_covering(cases);
}

// Logits with a row stride of 0 are one row that every target is looked up in.
TEST_F(CrossEntropyHost, BroadcastLogitsInEveryVariant) {
  std::vector<Case> cases;
  for (const char* config :
       {"variant=warp", "variant=block,threads=128", "variant=hybrid,threads=64,register_vectors=1,min_blocks=2",
        "variant=cluster,threads=64,blocks_per_row=2", "variant=grid,threads=64,blocks_per_row=3,register_vectors=2",
        "variant=two_pass,threads=64,unroll=2", "variant=split,threads=64,unroll=1,blocks_per_row=3"})
    for (const char* fields : {"rows=23,cols=1031,logits_row_stride=0,reduction=none,nll=1",
                               "rows=23,cols=1032,dtype=bf16,logits_row_stride=0,gradient=separate,dloss=scalar,weight=1"})
      cases.push_back(test::case_of("cross_entropy", fields, device_.info(), config));
  verify_covering(cases);

  // The same losses as with a copy of the row for each target.
  const Case broadcast =
      test::case_of("cross_entropy", "rows=9,cols=300,logits_row_stride=0,reduction=none", device_.info(), "variant=warp");
  const Case copied = test::case_of("cross_entropy", "rows=9,cols=300,reduction=none", device_.info(), "variant=warp");
  std::vector<std::vector<std::byte>> losses;
  with_executables({broadcast, copied}, [&](const Case& c, const Executable& executable) {
    std::vector<DeviceMemory> memory;
    std::vector<void*> addresses;
    for (const ArrayInfo& info : c.op().parse(c.problem)->arrays()) {
      std::vector<std::byte> content(static_cast<std::size_t>(info.extent_bytes()));
      for (std::int64_t i = 0; info.name == "logits" && i < info.extent_bytes() / 4; ++i)
        write_element(DType::f32, content.data(), i, static_cast<float>(i % 300 * 7 % 31) / 8);
      for (std::int64_t i = 0; info.name == "targets" && i < 9; ++i) write_integer(info.dtype, content.data(), i, 13 * i);
      memory.emplace_back(device_, content.size());
      device_.copy_to_device(memory.back().get(), content.data(), content.size());
      addresses.push_back(memory.back().get());
    }
    executable.enqueue(addresses, nullptr);
    device_.synchronize(nullptr);
    std::vector<std::byte>& loss = losses.emplace_back(9 * sizeof(float));
    device_.copy_to_host(loss.data(), memory[2].get(), loss.size());
  });
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_NE(read_element(DType::f32, losses[0].data(), 0), read_element(DType::f32, losses[0].data(), 1));
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
