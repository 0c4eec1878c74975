// Numbers at the ends of a type's range: the kernels stay finite, and the check against float64 knows what is lost.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/half.h"
#include "tests/support/host_kernels.h"
#include "tests/templates/attention/mods.h"

namespace tunesmith {
namespace {

using test::AttentionArraysOnHost;
using test::Case;

class AttentionExtremes : public test::HostKernels {
 protected:
  /// Runs the case on random inputs, except the one that `fill` overwrites, and returns what the check finds.
  template <typename Fill>
  CheckResult check(const Case& c, const char* name, const Fill& fill) {
    CheckResult result;
    with_executables({c}, [&](const Case&, const Executable& executable) {
      const AttentionArraysOnHost arrays(c.problem, 3);
      const HostArray& array = arrays[name];
      for (std::int64_t i = 0; i < array.info.elements(); ++i) write_element(array.info.dtype, array.data, i, fill(i));
      std::vector<void*> addresses;
      for (const HostArray& one : arrays.all()) addresses.push_back(one.data);
      executable.enqueue(addresses, nullptr);
      result = c.op().parse(c.problem)->check(arrays.all(), 1000);
      const std::int64_t elements = arrays["o"].info.elements();
      for (std::int64_t i = 0; i < elements; ++i) EXPECT_FALSE(std::isnan(arrays.real("o", i))) << i;
    });
    return result;
  }
};

TEST_F(AttentionExtremes, ValuesNearTheLargestNumberStayFinite) {
  for (const char* fields : {"seq_q=5,seq_kv=70,head_dim=16,dtype=f32", "seq_q=5,seq_kv=1,head_dim=16,dtype=f32",
                             "seq_q=40,seq_kv=300,head_dim=16,dtype=f32,causal=bottom-right,sinks=1"}) {
    const Case c = case_of("attention", fields, "variant=simt");
    for (const double value : {3.3e38, -3.3e38, 1e-30}) {
      const CheckResult result = check(c, "v", [&](std::int64_t i) { return i % 7 == 0 ? value / 2 : value; });
      EXPECT_TRUE(result.passed) << fields << ": " << result.first_failure;
    }
  }
}

// Copies of rows that do not exist need aligned addresses, too.
TEST_F(AttentionExtremes, StridesOfOneEntryAreIgnored) {
  std::vector<Case> cases;
  for (const char* op : {"attention", "attention_backward"})
    for (const char* fields :
         {"seq_q=1,seq_kv=2,head_dim=8,layout=bhsd,q_seq_stride=3", "seq_q=2,seq_kv=1,head_dim=8,k_seq_stride=9",
          "seq_q=3,seq_kv=1,head_dim=8,v_seq_stride=11,v_head_stride=1", "seq_q=1,head_dim=8,o_seq_stride=9"})
      cases.push_back(case_of(op, std::string(fields) + ",dtype=f16", "variant=mma"));
  verify_all(cases);
}

// A sink takes nearly all of the weight: outputs are below the least number, or denormal.
TEST_F(AttentionExtremes, LargeSinksLeaveDenormalOutputs) {
  for (const char* dtype : {"f32", "bf16", "f16"})
    for (const double sink : {30.0, 87.0, 95.0, 100.0, 1000.0}) {
      const Case c = case_of("attention", std::string("seq_q=20,seq_kv=30,head_dim=16,sinks=1,dtype=") + dtype, "");
      const CheckResult result = check(c, "sinks", [&](std::int64_t) { return sink; });
      EXPECT_TRUE(result.passed) << dtype << ", sink " << sink << ": " << result.first_failure;
    }
}

}  // namespace
}  // namespace tunesmith
