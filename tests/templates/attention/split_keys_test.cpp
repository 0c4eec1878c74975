// split_keys: a sequence has the same bits in any batch, and results are right with every option of decoding.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "core/half.h"
#include "tests/support/host_kernels.h"
#include "tests/templates/attention/mods.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using test::AttentionArraysOnHost;
using test::Case;

class AttentionSplitKeys : public test::OptimizedHostKernels {
 protected:
  /// Sequences of at most 640 keys in pages of 16. Without `config`, the configuration is the default one.
  Case batch_of(std::int64_t batch, std::int64_t seq_q, const std::string& split_keys, const std::string& config = "") {
    return test::case_of("attention",
                         "heads=4,kv_heads=2,head_dim=32,dtype=bf16,causal=bottom-right,page_size=16,max_pages=40,pages=97,"
                         "batch=" +
                             std::to_string(batch) + ",seq_q=" + std::to_string(seq_q) + ",split_keys=" + split_keys,
                         device_.info(), config);
  }
  static void run(const Executable& executable, const AttentionArraysOnHost& arrays) {
    std::vector<void*> addresses;
    for (const HostArray& array : arrays.all()) addresses.push_back(array.data);
    executable.enqueue(addresses, nullptr);
  }
  /// Returns the bits of a sequence's outputs and lse.
  static std::vector<std::byte> bits_of(const AttentionArraysOnHost& arrays, std::int64_t batch, std::int64_t b) {
    std::vector<std::byte> bits;
    for (const char* name : {"o", "lse"}) {
      const HostArray& array = arrays[name];
      const std::int64_t bytes = array.info.elements() / batch * size_of(array.info.dtype);
      bits.insert(bits.end(), array.data + b * bytes, array.data + (b + 1) * bytes);
    }
    return bits;
  }
  /// Returns how many of six sequences of different lengths have other bits when each is alone in its batch.
  int changed_by_batch(std::int64_t seq_q, const std::string& split_keys, const std::string& of_many = "",
                       const std::string& of_one = "") {
    constexpr std::int64_t batch = 6, table = 40;
    constexpr std::array<std::int64_t, batch> lengths{640, 513, 65, 64, 1, 0};
    int changed = 0;
    const Case many = batch_of(batch, seq_q, split_keys, of_many), one = batch_of(1, seq_q, split_keys, of_one);
    with_executables({many}, [&](const Case& c, const Executable& together) {
      const AttentionArraysOnHost all(c.problem, 5);
      for (std::int64_t b = 0; b < batch; ++b)
        write_integer(DType::i32, all["kv_lengths"].data, b, lengths[static_cast<std::size_t>(b)]);
      for (std::int64_t i = 0; i < batch * table; ++i) write_integer(DType::i32, all["block_table"].data, i, i * 7 % 97);
      run(together, all);
      const CheckResult check = c.op().parse(c.problem)->check(all.all(), 1 << 20);
      EXPECT_TRUE(check.passed) << check.first_failure;
      with_executables({one}, [&](const Case& single, const Executable& alone) {
        const AttentionArraysOnHost arrays(single.problem, 5);
        for (const char* name : {"k", "v"})
          std::memcpy(arrays[name].data, all[name].data,
                      static_cast<std::size_t>(all[name].info.elements() * size_of(all[name].info.dtype)));
        for (std::int64_t b = 0; b < batch; ++b) {
          const std::size_t bytes = static_cast<std::size_t>(arrays["q"].info.elements() * 2);
          std::memcpy(arrays["q"].data, all["q"].data + static_cast<std::size_t>(b) * bytes, bytes);
          std::memcpy(arrays["block_table"].data, all["block_table"].data + b * table * 4, table * 4);
          write_integer(DType::i32, arrays["kv_lengths"].data, 0, lengths[static_cast<std::size_t>(b)]);
          run(alone, arrays);
          changed += bits_of(arrays, 1, 0) == bits_of(all, batch, b) ? 0 : 1;
        }
      });
    });
    return changed;
  }
};

TEST_F(AttentionSplitKeys, ASequenceHasTheSameBitsInAnyBatch) {
  for (const std::int64_t seq_q : {1, 3}) {
    EXPECT_EQ(changed_by_batch(seq_q, "64"), 0);
    EXPECT_EQ(changed_by_batch(seq_q, "256"), 0);
    // Other splits give other bits.
    EXPECT_GT(changed_by_batch(seq_q, "0", "variant=split,splits=1", "variant=split,splits=4"), 0);
  }
}

// Configurations are chosen without the batch, and tuned ones found without it.
TEST_F(AttentionSplitKeys, ChoicesDoNotDependOnTheBatch) {
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  const auto parsed = [&](std::int64_t batch, const char* split_keys) {
    const Case c = batch_of(batch, 1, split_keys);
    return c.op().parse(c.problem);
  };
  EXPECT_EQ(parsed(1, "128")->default_config(device), parsed(300, "128")->default_config(device));
  EXPECT_EQ(parsed(1, "128")->key().rows_bucket, parsed(300, "128")->key().rows_bucket);
  EXPECT_NE(parsed(1, "0")->default_config(device), parsed(300, "0")->default_config(device));
  EXPECT_NE(parsed(1, "128")->key().problem_class, parsed(1, "192")->key().problem_class);
  for (const Config& config : parsed(4, "128")->search_space(device, Effort::full))
    EXPECT_FALSE(config.text().find("cluster=2") != std::string::npos) << config.text();
}

TEST_F(AttentionSplitKeys, EveryOption) {
  std::vector<Case> cases;
  for (const char* fields : {"seq_q=1,seq_kv=330", "seq_q=3,seq_kv=330,kv_lengths=1,causal=bottom-right,window_left=70",
                             "seq_q=1,page_size=3,max_pages=100,pages=300,window_left=100",
                             "seq_q=4,page_size=16,max_pages=20,pages=70,varlen=1,total_q=11,causal=bottom-right,sinks=1",
                             "seq_q=2,seq_kv=330,alibi=1,softcap=20,causal=top-left", "seq_q=1,seq_kv=60"})
    for (const char* config : {"variant=split,warps=2,tile_kv=16", "variant=split,warps=4,tile_kv=64,stages=2"})
      cases.push_back(test::case_of("attention",
                                    std::string("batch=4,heads=4,kv_heads=2,head_dim=32,dtype=bf16,split_keys=64,") + fields,
                                    device_.info(), config));
  cases.push_back(test::case_of("attention",
                                "batch=4,heads=4,kv_heads=2,head_dim=32,dtype=bf16,split_keys=64,seq_q=1,page_size=16,"
                                "max_pages=20,pages=70,kv_dtype=e4m3,kv_scales=head",
                                device_.info(), "variant=split,warps=2,tile_kv=32"));
  verify_all(cases);
}

TEST_F(AttentionSplitKeys, Errors) {
  const auto expect_error = [&](const std::string& fields, const std::string& config, const char* part) {
    try {
      test::case_of("attention", "heads=4,kv_heads=2,head_dim=32,dtype=bf16,seq_q=1,seq_kv=600," + fields, device_.info(),
                    config);
      ADD_FAILURE() << fields << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  expect_error("split_keys=40", "", "split_keys is 40; allowed: ");
  expect_error("split_keys=64", "variant=split,cluster=2", "split_keys is 64, which decides the splits");
  expect_error("split_keys=64", "variant=split,splits=3", "split_keys is 64, which decides the splits");
  expect_error("split_keys=64", "variant=split,tile_kv=48", "split_keys is 64, which must be a multiple of tile_kv, 48");
}

}  // namespace
}  // namespace tunesmith
