// Keys in pages and lengths in device memory: numerics on the host executor compared with float64 through the block table,
// and what the test inputs contain. Pages are shared, permuted and unused; entries beyond a length are no pages, and
// positions that no length reaches hold NaN (kv_layout.h).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/half.h"
#include "tests/support/host_kernels.h"
#include "tests/support/mutations.h"
#include "tests/templates/attention/mods.h"
#include "tuner/verify.h"
#include "tunesmith/attention_backward.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using test::AttentionArraysOnHost;
using test::Case;

/// Adds a pool with `pages` pages; a sequence has at most `max_pages`.
std::string paged(const std::string& fields, int page_size, int max_pages, int pages) {
  return fields + ",page_size=" + std::to_string(page_size) + ",max_pages=" + std::to_string(max_pages) +
         ",pages=" + std::to_string(pages);
}

class AttentionPaged : public test::OptimizedHostKernels {
 protected:
  Case case_of(const std::string& fields, const std::string& config) {
    return test::case_of("attention", fields, device_.info(), config);
  }
  static CheckResult launch(const Case& c, const Executable& executable, const AttentionArraysOnHost& arrays) {
    std::vector<void*> addresses;
    for (const HostArray& array : arrays.all()) addresses.push_back(array.data);
    for (const char* output : {"o", "lse"})
      for (std::int64_t i = 0; i < arrays[output].info.elements(); ++i)
        write_element(arrays[output].info.dtype, arrays[output].data, i, NAN);
    executable.enqueue(addresses, nullptr);
    return c.op().parse(c.problem)->check(arrays.all(), 1 << 20);
  }
};

// NaN after the last key reaches no result because values are cleared; each lane has its own part of the tile.
TEST_F(AttentionPaged, WgmmaMutationsAreDetected) {
  const Case c = case_of(paged("batch=4,heads=2,kv_heads=1,seq_q=70,head_dim=64,dtype=bf16,causal=bottom-right", 16, 9, 40),
                         "variant=wgmma,tile_q=64,tile_kv=64,stages=2");
  test::expect_detected(c,
                        {{"if (first && beyond > 0) clear_values(beyond);", "{}"},
                         {"to += lane_index() * Boxes::rows * Tiles::row_bytes;", ""},
                         {"place = next_place;", ""}},
                        device_, compiler_);
}

// A mask_mod sees positions of the sequence, not of pages, and its block mask ends with each length.
TEST_F(AttentionPaged, UserFunctions) {
  std::vector<Case> cases;
  const std::string fields = paged("batch=7,heads=4,kv_heads=2,seq_q=5,head_dim=16,dtype=bf16", 8, 40, 150);
  const Problem problem = test::modified(fields, {{"score_mod", test::mod_example("softcap")},
                                                  {"mask_mod",
                                                   "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) "
                                                   "{ return k < 64 ? q % 2 == h % 2 : k / 3 % 2 == b % 2; }"},
                                                  {"aux", "cap:f32=3"}});
  for (const char* config : {"variant=split,warps=2,tile_kv=16,splits=2", "variant=split,warps=2,tile_kv=16,cluster=2",
                             "variant=mma,tile_q=16,warps=1,tile_kv=32", "variant=simt,tile_q=16,tile_kv=16,threads=64",
                             "variant=wgmma,tile_q=64,tile_kv=32"})
    cases.push_back(test::case_of(problem, device_.info(), config));
  verify_all(cases);
}

// One plan serves all steps: a launch reads lengths and table, and switches sequences off whose length is 0.
TEST_F(AttentionPaged, EachLaunchReadsLengthsAndTable) {
  const std::string fields = paged("batch=5,heads=4,kv_heads=2,seq_q=1,head_dim=32,dtype=f16", 16, 9, 45);
  for (const char* config : {"variant=split,warps=2,tile_kv=16,splits=3", "variant=split,warps=2,tile_kv=16,cluster=2",
                             "variant=mma,tile_q=16,warps=1,tile_kv=32", "variant=wgmma,tile_q=64,tile_kv=48"})
    with_executables({case_of(fields, config)}, [&](const Case& c, const Executable& executable) {
      const AttentionArraysOnHost arrays(c.problem, 3);
      std::uint64_t random = 1;
      for (int step = 0; step < 6; ++step) {
        for (std::int64_t b = 0; b < 5; ++b) {
          random = random * 6364136223846793005U + 1442695040888963407U;
          const std::int64_t length = step == 3 ? 0 : static_cast<std::int64_t>((random >> 33) % (9 * 16 + 1));
          write_integer(DType::i32, arrays["kv_lengths"].data, b, length);
          for (std::int64_t i = 0; i < 9; ++i)
            write_integer(DType::i32, arrays["block_table"].data, b * 9 + i,
                          i * 16 < length ? static_cast<std::int64_t>((random >> 20) + i * 7) % 45 : -1);
        }
        const CheckResult check = launch(c, executable, arrays);
        EXPECT_TRUE(check.passed) << c.text() << " step " << step << ": " << check.first_failure;
        if (step != 3) continue;
        for (std::int64_t i = 0; i < arrays["lse"].info.elements(); ++i)
          EXPECT_EQ(arrays.real("lse", i), -std::numeric_limits<double>::infinity());
        for (std::int64_t i = 0; i < arrays["o"].info.elements(); ++i) EXPECT_EQ(arrays.real("o", i), 0);
      }
    });
}

// A server's scheduler: requests arrive, grow by a key a step and end; their pages go back to the pool, filled with NaN, and
// are used again. Every 40th step, each request alone, with the others switched off, has the same bits.
TEST_F(AttentionPaged, AThousandStepsOfAScheduler) {
  constexpr std::int64_t batch = 5, page = 4, max_pages = 6, pages = 20, row = 16;
  const std::string fields = paged("batch=5,heads=2,kv_heads=1,seq_q=1,head_dim=16,dtype=f16", page, max_pages, pages);
  for (const char* config : {"variant=split,warps=2,tile_kv=16,splits=2", "variant=mma,tile_q=16,warps=1,tile_kv=16"})
    with_executables({case_of(fields, config)}, [&](const Case& c, const Executable& executable) {
      const AttentionArraysOnHost arrays(c.problem, 3);
      std::vector<std::int64_t> unused, lengths(batch);
      const auto give_back = [&](std::int64_t number) {
        for (const char* name : {"k", "v"})
          for (std::int64_t i = 0; i < page * row; ++i)
            write_element(DType::f16, arrays[name].data, number * page * row + i, NAN);
        unused.push_back(number);
      };
      for (std::int64_t number = 0; number < pages; ++number) give_back(number);
      for (std::int64_t i = 0; i < batch * max_pages; ++i) write_integer(DType::i32, arrays["block_table"].data, i, -1);
      std::uint64_t random = 7;
      const auto draw = [&](std::uint64_t below) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        return static_cast<std::int64_t>((random >> 33) % below);
      };
      std::int64_t reused = 0, refused = 0;
      for (int step = 0; step < 1000; ++step) {
        for (std::int64_t b = 0; b < batch; ++b) {
          std::int64_t& length = lengths[static_cast<std::size_t>(b)];
          if (length == page * max_pages || (length > 0 && draw(12) == 0)) {
            for (std::int64_t i = 0; i * page < length; ++i) {
              give_back(arrays.integer("block_table", b * max_pages + i));
              write_integer(DType::i32, arrays["block_table"].data, b * max_pages + i, 1 << 30);
            }
            length = 0;
          } else if (length > 0 || draw(3) == 0) {
            if (length % page == 0) {
              if (unused.empty() && ++refused > 0) continue;  // the request waits
              const auto chosen = unused.begin() + draw(unused.size());
              write_integer(DType::i32, arrays["block_table"].data, b * max_pages + length / page, *chosen);
              unused.erase(chosen);
              ++reused;
            }
            const std::int64_t slot = arrays.integer("block_table", b * max_pages + length / page) * page + length % page;
            for (const char* name : {"k", "v"})
              for (std::int64_t i = 0; i < row; ++i)
                write_element(DType::f16, arrays[name].data, slot * row + i, static_cast<double>(draw(4001)) / 1000 - 2);
            ++length;
          }
          write_integer(DType::i32, arrays["kv_lengths"].data, b, length);
        }
        const CheckResult check = launch(c, executable, arrays);
        ASSERT_TRUE(check.passed) << c.text() << " step " << step << ": " << check.first_failure;
        if (step % 40 != 0) continue;
        std::vector<double> together;
        for (std::int64_t i = 0; i < arrays["o"].info.elements(); ++i) together.push_back(arrays.real("o", i));
        for (std::int64_t b = 0; b < batch; ++b) {
          for (std::int64_t other = 0; other < batch; ++other)
            write_integer(DType::i32, arrays["kv_lengths"].data, other,
                          other == b ? lengths[static_cast<std::size_t>(b)] : 0);
          EXPECT_TRUE(launch(c, executable, arrays).passed);
          for (std::int64_t i = b * 2 * row; i < (b + 1) * 2 * row; ++i)
            EXPECT_EQ(arrays.real("o", i), together[static_cast<std::size_t>(i)]) << "request " << b << ", step " << step;
        }
        for (std::int64_t b = 0; b < batch; ++b)
          write_integer(DType::i32, arrays["kv_lengths"].data, b, lengths[static_cast<std::size_t>(b)]);
      }
      EXPECT_GT(reused, 20 * pages);
      EXPECT_GT(refused, 10);
    });
}

// The result does not depend on where pages are: it has the bits of the same keys without pages.
TEST_F(AttentionPaged, BitsAreThoseOfContiguousKeys) {
  constexpr std::int64_t batch = 3, keys = 96, page = 8, row = 2 * 32;
  const std::string fields = "batch=3,heads=4,kv_heads=2,seq_q=2,head_dim=32,dtype=bf16";
  for (const char* config : {"variant=split,warps=2,tile_kv=32,splits=2", "variant=mma,tile_q=16,warps=1,tile_kv=32",
                             "variant=wgmma,tile_q=64,tile_kv=32"}) {
    std::vector<double> first;
    with_executables(
        {case_of(paged(fields, page, keys / page, 40), config), case_of(fields + ",kv_lengths=1,seq_kv=96", config)},
        [&](const Case& c, const Executable& executable) {
          const bool has_pages = c.problem.fields.contains("page_size");
          const AttentionArraysOnHost arrays(c.problem, 3);
          for (const char* name : {"k", "v"})
            for (std::int64_t b = 0; b < batch; ++b)
              for (std::int64_t j = 0; j < keys; ++j) {
                const std::int64_t slot =
                    has_pages ? arrays.integer("block_table", b * (keys / page) + j / page) * page + j % page : b * keys + j;
                for (std::int64_t i = 0; i < row; ++i)
                  write_element(DType::bf16, arrays[name].data, slot * row + i,
                                std::sin(static_cast<double>(i + 97 * j + 1009 * b + (*name == 'k' ? 0 : 5))));
              }
          for (std::int64_t b = 0; b < batch; ++b) write_integer(DType::i32, arrays["kv_lengths"].data, b, keys - 11 * b);
          const CheckResult check = launch(c, executable, arrays);
          EXPECT_TRUE(check.passed) << check.first_failure;
          std::vector<double> o;
          for (std::int64_t i = 0; i < arrays["o"].info.elements(); ++i) o.push_back(arrays.real("o", i));
          if (has_pages)
            first = o;
          else
            EXPECT_EQ(first, o) << config;
        });
  }
}

// The check reads through the table: it detects a kernel that ends a key too early, and one that reads another page.
TEST_F(AttentionPaged, CheckDetectsWrongLengthsAndPages) {
  const Case c = case_of(paged("batch=2,heads=2,seq_q=1,head_dim=16,dtype=f16", 4, 10, 30), "variant=split,tile_kv=16");
  with_executables({c}, [&](const Case&, const Executable& executable) {
    const AttentionArraysOnHost arrays(c.problem, 3);
    EXPECT_TRUE(launch(c, executable, arrays).passed);
    const auto passes_with = [&](const char* name, std::int64_t value) {
      const std::int64_t right = arrays.integer(name, 1);
      EXPECT_TRUE(launch(c, executable, arrays).passed);
      write_integer(DType::i32, arrays[name].data, 1, value);
      const bool passed = c.op().parse(c.problem)->check(arrays.all(), 1 << 20).passed;
      write_integer(DType::i32, arrays[name].data, 1, right);
      return passed;
    };
    EXPECT_FALSE(passes_with("kv_lengths", 39));
    EXPECT_FALSE(passes_with("block_table", (arrays.integer("block_table", 1) + 1) % 30));
    EXPECT_TRUE(passes_with("kv_lengths", 40));
    EXPECT_TRUE(passes_with("kv_lengths", 1000)) << "lengths beyond seq_kv count as seq_kv";
    EXPECT_THROW(passes_with("block_table", 30), Error);
  });
}

TEST(AttentionPages, TestInputsHaveTheEdgeCases) {
  const Problem problem = test::normalized("attention", paged("batch=14,heads=2,seq_q=1,head_dim=8,dtype=f32", 4, 10, 150));
  const AttentionArraysOnHost arrays(problem, 3, InputKind::edge_cases);
  std::set<std::int64_t> lengths, garbage;
  std::multiset<std::int64_t> pages;
  bool has_border = false, has_after_border = false;
  for (std::int64_t b = 0; b < 14; ++b) {
    const std::int64_t length = arrays.integer("kv_lengths", b);
    lengths.insert(length);
    has_border = has_border || (length > 0 && length % 4 == 0);
    has_after_border = has_after_border || length % 4 == 1;
    for (std::int64_t i = 0; i < 10; ++i) {
      const std::int64_t page = arrays.integer("block_table", b * 10 + i);
      if (i * 4 < length)
        pages.insert(page);
      else
        garbage.insert(page);
    }
  }
  EXPECT_TRUE(lengths.contains(0) && lengths.contains(1) && lengths.contains(40) && has_border && has_after_border);
  EXPECT_TRUE(garbage.contains(-1) && garbage.contains(std::numeric_limits<std::int32_t>::max()));
  EXPECT_TRUE(std::ranges::all_of(pages, [](std::int64_t page) { return page >= 0 && page < 150; }));
  EXPECT_TRUE(std::ranges::any_of(pages, [&](std::int64_t page) { return pages.count(page) > 1; })) << "none is shared";
  std::int64_t unused = 0;
  for (std::int64_t i = 0; i < arrays["k"].info.elements(); ++i) unused += std::isnan(arrays.real("k", i)) ? 1 : 0;
  EXPECT_GT(unused, 60 * 2 * 8);
  // Random inputs are what is timed: all sequences as long as they can be.
  const AttentionArraysOnHost full(problem, 3);
  for (std::int64_t b = 0; b < 14; ++b) EXPECT_EQ(full.integer("kv_lengths", b), 40);
}

TEST(AttentionPages, DescriptionAndErrors) {
  const auto expect_error = [](const std::string& fields, const std::vector<const char*>& parts) {
    try {
      test::normalized("attention", fields);
      ADD_FAILURE() << fields << " was accepted";
    } catch (const Error& error) {
      for (const char* part : parts)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what() << " lacks " << part;
    }
  };
  const std::string fields = "batch=3,heads=4,kv_heads=2,seq_q=1,head_dim=64";
  const Problem problem = test::normalized("attention", paged(fields, 16, 9, 50));
  EXPECT_EQ(problem.fields.integer("seq_kv"), 144);
  EXPECT_EQ(problem.fields.integer("kv_lengths"), 1);
  EXPECT_EQ(find_op("attention").normalize(problem), problem);
  EXPECT_EQ(problem, test::normalized("attention", paged(fields + ",kv_lengths=1,seq_kv=144", 16, 9, 50)));
  const auto shape_of = [](const Problem& of, const std::string& name) {
    for (const ArrayInfo& info : find_op("attention").parse(of)->arrays())
      if (info.name == name) return info.shape;
    return std::vector<std::int64_t>();
  };
  EXPECT_EQ(shape_of(problem, "k"), (std::vector<std::int64_t>{50, 16, 2, 64}));
  EXPECT_EQ(shape_of(problem, "block_table"), (std::vector<std::int64_t>{3, 9}));
  EXPECT_EQ(shape_of(problem, "kv_lengths"), (std::vector<std::int64_t>{3}));
  const Problem packed = test::normalized("attention", paged(fields + ",layout=bhsd,varlen=1,total_q=2", 16, 9, 50));
  EXPECT_EQ(shape_of(packed, "k"), (std::vector<std::int64_t>{50, 2, 16, 64}));
  EXPECT_EQ(shape_of(packed, "cu_seqlens_q"), (std::vector<std::int64_t>{4}));
  EXPECT_TRUE(shape_of(packed, "cu_seqlens_kv").empty());

  expect_error(fields + ",page_size=0", {"page_size is 0; allowed: 1 to"});
  expect_error(fields + ",page_size=16,max_pages=3", {"pages is missing", "needs pages and max_pages"});
  expect_error(fields + ",page_size=16,pages=3", {"max_pages is missing"});
  expect_error(fields + ",max_pages=3", {"max_pages", "page_size"});
  expect_error(paged(fields + ",seq_kv=145", 16, 9, 50), {"seq_kv is 145", "9 pages of 16 keys have room for 144"});
  expect_error(paged(fields + ",varlen=1,total_q=2,total_kv=9", 16, 9, 50), {"total_kv", "no kv_lengths"});
  expect_error(paged(fields + ",dropout=0.1", 16, 9, 50), {"dropout is 0.1; allowed with kv_lengths: 0"});

  AttentionBackwardProblem backward{};
  backward.seq_q = 4;
  backward.page_size = 16;
  backward.pages = backward.max_pages = 3;
  EXPECT_THROW(find_op("attention_backward").parse_typed(typeid(backward), &backward), Error);

  const auto of_page = [&](int page_size) {
    return find_op("attention")
        .parse(test::normalized("attention", paged("batch=2,heads=4,seq_q=64,head_dim=64,dtype=bf16", page_size, 9, 50)));
  };
  const DeviceInfo hopper = generic_device(parse_arch("sm_90a"));
  EXPECT_EQ(of_page(8)->default_config(hopper).variant(), "wgmma");
  EXPECT_EQ(of_page(12)->default_config(hopper).variant(), "mma");
  EXPECT_NE(of_page(12)->why_invalid(hopper, of_page(8)->default_config(hopper)).find("page_size is 12"), std::string::npos);

  // A key of another length or table is no other kernel; another page size is.
  const auto key = [](const std::string& of) {
    return find_op("attention").parse(test::normalized("attention", of))->key().problem_class;
  };
  EXPECT_EQ(key(paged(fields, 16, 9, 50)), key(paged(fields + ",block_table_stride=20", 16, 9, 700)));
  EXPECT_NE(key(paged(fields, 16, 9, 50)), key(paged(fields, 32, 9, 50)));
  EXPECT_NE(key(fields + ",kv_lengths=1,seq_kv=9"), key(fields + ",seq_kv=9"));
}

}  // namespace
}  // namespace tunesmith
