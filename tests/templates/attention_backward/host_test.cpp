// Numerics of the generated kernels of attention's backward pass on the host executor compared with float64: with poisoned
// outputs, canaries, NaN in every gap between rows, and a second run that must be bitwise equal (tuner/verify.h).

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

#include "tests/support/host_kernels.h"
#include "tests/templates/attention/mods.h"
#include "tests/templates/attention_backward/matrix.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::Case;

class AttentionBackwardHost : public test::OptimizedHostKernels {
 protected:
  Case case_of(const std::string& fields, const std::string& config) {
    return test::case_of("attention_backward", fields, device_.info(), config);
  }

  /// The host executor's own search spaces have no wgmma.
  std::vector<DeviceInfo> devices() const { return {device_.info(), generic_device(parse_arch("sm_90a"))}; }
};

class AttentionBackwardHostParts : public AttentionBackwardHost, public testing::WithParamInterface<std::size_t> {};
constexpr std::size_t parts = 6;

TEST_P(AttentionBackwardHostParts, Matrix) {
  std::vector<Case> cases;
  for (const test::BackwardCase& each : test::backward_matrix(devices(), 1)) cases.push_back(each.c);
  verify_all(test::part_of(cases, GetParam(), parts));
}

INSTANTIATE_TEST_SUITE_P(All, AttentionBackwardHostParts, testing::Range(std::size_t{0}, parts));

TEST_F(AttentionBackwardHost, MatrixIsComplete) { test::expect_complete(test::backward_matrix(devices(), 1)); }

// The check against the reference detects results that one wrong key, or one option, changes.
TEST_F(AttentionBackwardHost, DetectsAWrongOption) {
  const Case right = case_of("seq_q=40,seq_kv=40,head_dim=16,heads=2,dlse=1,dtype=bf16", "");
  for (const char* option : {"window_left=38", "scale=0.26", "softcap=8", "causal=top-left", "accumulate=1"}) {
    const Case wrong =
        case_of(std::string("seq_q=40,seq_kv=40,head_dim=16,heads=2,dlse=1,dtype=bf16,") + option, right.config.text());
    with_executables({wrong}, [&](const Case&, const Executable& executable) {
      EXPECT_FALSE(verify(*right.op().parse(right.problem), executable, device_, 3).passed) << option;
    });
  }
  // Another mask of dropout.
  const std::string dropping = "seq_q=40,seq_kv=40,head_dim=16,heads=2,dtype=bf16,dropout=0.05,dropout_seed=";
  const Case seeded = case_of(dropping + "1", ""), other = case_of(dropping + "2", "");
  with_executables({other}, [&](const Case&, const Executable& executable) {
    EXPECT_TRUE(verify(*other.op().parse(other.problem), executable, device_, 3).passed);
    EXPECT_FALSE(verify(*seeded.op().parse(seeded.problem), executable, device_, 3).passed);
  });
  // A kernel that replaces the gradients instead of adding to them.
  const Case adding = case_of("seq_q=40,seq_kv=40,head_dim=16,heads=2,dlse=1,dtype=bf16,accumulate=1", "");
  with_executables({right}, [&](const Case&, const Executable& executable) {
    EXPECT_FALSE(verify(*adding.op().parse(adding.problem), executable, device_, 3).passed);
  });
}

// Every output is needed: an array that keeps its poison is detected.
TEST_F(AttentionBackwardHost, FullyMaskedQueriesAndKeysGiveZeros) {
  for (const char* dtype : {"f32", "bf16"}) {
    // The first 30 queries see no key; with a window, the first 29 keys see no query.
    const Case c = case_of(std::string("seq_q=50,seq_kv=20,head_dim=16,causal=bottom-right,dtype=") + dtype, "");
    with_executables({c}, [&](const Case&, const Executable& executable) {
      const test::AttentionArraysOnHost arrays(c.problem, 3);
      std::vector<void*> addresses;
      for (const HostArray& array : arrays.all()) {
        if (array.info.output) std::fill_n(array.data, array.info.extent_bytes(), std::byte{0xFF});
        addresses.push_back(array.data);
      }
      executable.enqueue(addresses, nullptr);
      for (std::int64_t i = 0; i < 30 * 16; ++i) ASSERT_EQ(arrays.real("dq", i), 0) << c.text() << " " << i;
      EXPECT_NE(arrays.real("dq", 31 * 16), 0) << c.text();
    });
    const Case window =
        case_of(std::string("seq_q=20,seq_kv=50,head_dim=16,window_left=0,window_right=5,dtype=") + dtype, "");
    with_executables({window}, [&](const Case&, const Executable& executable) {
      const test::AttentionArraysOnHost arrays(window.problem, 3);
      std::vector<void*> addresses;
      for (const HostArray& array : arrays.all()) {
        if (array.info.output) std::fill_n(array.data, array.info.extent_bytes(), std::byte{0xFF});
        addresses.push_back(array.data);
      }
      executable.enqueue(addresses, nullptr);
      for (const char* name : {"dk", "dv"})
        for (std::int64_t i = 0; i < 30 * 16; ++i) ASSERT_EQ(arrays.real(name, i), 0) << window.text() << " " << i;
      EXPECT_NE(arrays.real("dv", 31 * 16), 0) << window.text();
    });
  }
}

}  // namespace
}  // namespace tunesmith
