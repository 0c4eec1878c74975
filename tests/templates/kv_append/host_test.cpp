// kv_append: numerics on the host executor, what the check detects, and its description.

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/half.h"
#include "tests/support/host_kernels.h"
#include "tests/support/mutations.h"
#include "tests/templates/attention/mods.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using test::Case;

class KvAppendHost : public test::OptimizedHostKernels {};

// Each mutation leaves out, or exchanges, one thing that a reference without it would not notice either.
TEST_F(KvAppendHost, CheckDetectsMutations) {
  const Case c = case_of("kv_append",
                         "tokens=9,heads=2,kv_heads=2,head_dim=32,dtype=bf16,cache_dtype=e4m3,scales=head,page_size=4,pages="
                         "5,rope=neox,max_positions=90,qk_norm=1,weight_offset=1",
                         "threads=64");
  test::expect_detected(c,
                        {{"if (!exists || slot < 0) return;", "if (!exists || slot <= 0) return;"},
                         {"subtract(multiply(a, cosine[i])", "add(multiply(a, cosine[i])"},
                         {"add(weight[j], params.weight_offset)", "weight[j]"},
                         {"is_q ? params.q_weight : params.k_weight", "params.k_weight"},
                         {"is_v ? params.v_scale : params.k_scale", "params.v_scale"},
                         {"shape.scales == KvScales::head ? head : 0", "0"},
                         {"(slot - page * shape.page_size) * strides.slot", "0"},
                         {"params.positions[token]", "token"}},
                        device_, compiler_);
}

// Slots are read by each launch, so that one plan serves all steps.
TEST_F(KvAppendHost, EachLaunchReadsSlotsAndPositions) {
  const Case c = case_of(
      "kv_append", "tokens=6,heads=2,kv_heads=1,head_dim=16,dtype=f32,page_size=2,pages=20,rope=gpt-j,max_positions=50", "");
  with_executables({c}, [&](const Case&, const Executable& executable) {
    const test::AttentionArraysOnHost arrays(c.problem, 3);
    std::vector<void*> addresses;
    for (const HostArray& array : arrays.all()) addresses.push_back(array.data);
    std::set<std::int64_t> used;
    for (int step = 0; step < 6; ++step) {
      for (std::int64_t t = 0; t < 6; ++t) {
        const std::int64_t slot = (step * 6 + t) * 7 % 40;
        write_integer(DType::i64, arrays["slot_mapping"].data, t, t == step ? -1 : slot);
        write_integer(DType::i64, arrays["positions"].data, t, (step * 11 + t) % 50);
      }
      executable.enqueue(addresses, nullptr);
      const CheckResult check = c.op().parse(c.problem)->check(arrays.all(), 100);
      EXPECT_TRUE(check.passed) << check.first_failure;
    }
  });
}

// K and V of a page, or of a slot, are next to each other in one array; other overlaps are errors.
TEST_F(KvAppendHost, CachesInOneArray) {
  for (const char* strides :
       {"k_page_stride=256,v_page_stride=256", "k_slot_stride=64,v_slot_stride=64,k_page_stride=256,v_page_stride=256"}) {
    const Case c =
        case_of("kv_append", std::string("tokens=5,kv_heads=2,head_dim=16,dtype=bf16,page_size=4,pages=6,") + strides, "");
    with_executables({c}, [&](const Case&, const Executable& executable) {
      const test::AttentionArraysOnHost arrays(c.problem, 3);
      const std::int64_t apart = std::string_view(strides).starts_with("k_slot") ? 32 : 128;
      std::vector<std::byte> pool(6 * 256 * 2, std::byte{0x11});
      std::vector<void*> addresses;
      std::vector<HostArray> all(arrays.all().begin(), arrays.all().end());
      for (HostArray& array : all) {
        if (array.info.name == "k_cache") array.data = pool.data();
        if (array.info.name == "v_cache") array.data = pool.data() + apart * 2;
        addresses.push_back(array.data);
      }
      executable.enqueue(addresses, nullptr);
      const CheckResult check = c.op().parse(c.problem)->check(all, 100);
      EXPECT_TRUE(check.passed) << check.first_failure;
      std::int64_t changed = 0;
      for (const std::byte one : pool) changed += one == std::byte{0x11} ? 0 : 1;
      EXPECT_LE(changed, 5 * 2 * 2 * 16 * 2);
      EXPECT_GT(changed, 5 * 2 * 2 * 16);
      addresses.back() = pool.data() + 16;
      EXPECT_THROW(executable.enqueue(addresses, nullptr), Error);
    });
  }
}

TEST(KvAppendDescription, Arrays) {
  const auto names = [](const std::string& fields) {
    std::string text;
    for (const ArrayInfo& info : find_op("kv_append").parse(test::normalized("kv_append", "tokens=3," + fields))->arrays())
      text += info.name + (info.input ? "<" : "") + (info.output ? ">" : "") + " ";
    return text;
  };
  EXPECT_EQ(names("pages=4"), "k< v< slot_mapping< k_cache<> v_cache<> ");
  EXPECT_EQ(names("pages=4,heads=2,rope=neox,max_positions=5,qk_norm=1,cache_dtype=e4m3,scales=tensor"),
            "k< v< slot_mapping< q< positions< cos_sin< q_weight< k_weight< k_scale< v_scale< k_cache<> v_cache<> q_out> ");
}

TEST(KvAppendDescription, Keys) {
  const auto key = [](const std::string& fields) {
    return find_op("kv_append").parse(test::normalized("kv_append", "tokens=8,pages=4," + fields))->key().problem_class;
  };
  const std::string plain = key("kv_heads=2");
  EXPECT_EQ(key("kv_heads=4"), plain);
  std::set<std::string> all{plain};
  for (const char* fields : {"page_size=16", "dtype=f16", "cache_dtype=e4m3", "cache_dtype=e4m3,scales=head", "k_stride=65",
                             "rope=neox,max_positions=9", "rope=gpt-j,max_positions=9", "qk_norm=1",
                             "qk_norm=1,weight_dtype=f32", "rope=neox,max_positions=9,heads=4", "head_dim_v=32"})
    EXPECT_TRUE(all.insert(key(fields)).second) << fields;
}

}  // namespace
}  // namespace tunesmith
