// Block masks of mask_mod on a GPU: every mask in every variant, the contents of the block mask, that kernels skip fully
// masked tiles, and that a block mask can be reused.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/half.h"
#include "tests/support/gpu_kernels.h"
#include "tests/templates/attention/masks.h"
#include "tuner/evaluate.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::AttentionArraysOnHost;
using test::Case;
using test::Mask;
using Int = std::int64_t;

struct MaskedCase {
  Mask mask;
  Case run;
};

std::vector<Case> plain_cases(const std::vector<MaskedCase>& masked) {
  std::vector<Case> all;
  for (const MaskedCase& c : masked) all.push_back(c.run);
  return all;
}

class AttentionMaskGpu : public test::GpuKernels {
 protected:
  /// Returns the shapes of the host executor's tests and shapes that all variants support: rows of 128 bytes, many tiles.
  static std::vector<std::string> shapes() {
    std::vector<std::string> all = test::masked_shapes();
    all.insert(all.end(), {"batch=3,heads=4,kv_heads=2,seq_q=700,seq_kv=900,head_dim=64,dtype=bf16",
                           "batch=2,heads=4,seq_q=600,seq_kv=600,head_dim=128,dtype=f16,causal=bottom-right",
                           "batch=1,heads=2,seq_q=333,seq_kv=4200,head_dim=64,head_dim_v=128,dtype=bf16,window_left=1000",
                           "batch=2,heads=2,seq_q=257,seq_kv=513,head_dim=256,dtype=bf16"});
    return all;
  }
  /// Returns every mask with every shape, in this many configurations, and at least one of each variant.
  std::vector<MaskedCase> cases(std::size_t configs) {
    std::vector<MaskedCase> all;
    std::uint64_t seed = 1;
    for (const Mask& mask : test::masks())
      for (const std::string& shape : shapes()) {
        const Problem problem = mask.problem(shape);
        for (Config& config : test::sample_space(problem, device().info(), configs, seed++))
          all.push_back({mask, {problem, std::move(config)}});
      }
    return all;
  }
  void launch(const Executable& executable, const AttentionArraysOnHost& arrays) {
    evaluate_on(device(), executable.module())(executable.plan(), arrays.all());
  }
};

Problem with(Problem problem, const char* block_mask) {
  problem.fields.set("block_mask", std::string(block_mask));
  return find_op("attention").normalize(problem);
}

std::size_t bytes_of(const AttentionArraysOnHost& arrays, const char* array) {
  return static_cast<std::size_t>(arrays[array].info.extent_bytes());
}

TEST_F(AttentionMaskGpu, EveryMaskInEveryVariant) {
  const std::vector<Case> all = plain_cases(cases(4));
  compile_all(all);
  for (const Case& c : all) {
    const CheckResult result = verify(*c.op().parse(c.problem), *executable_of(c), device(), 5);
    EXPECT_TRUE(result.passed) << c.problem.short_text() << " | " << c.config.text() << ": " << result.first_failure;
  }
}

TEST_F(AttentionMaskGpu, BlockMaskIsCorrectAndReusable) {
  const std::vector<MaskedCase> masked = cases(1);
  compile_all(plain_cases(masked));  // all three modes have the same source
  for (const auto& [mask, internal] : masked) {
    SCOPED_TRACE(mask.name + ", " + internal.problem.short_text() + " | " + internal.config.text());
    const Case write{with(internal.problem, "write"), internal.config},
        read{with(internal.problem, "read"), internal.config};
    const AttentionArraysOnHost plain(internal.problem, 5), written(write.problem, 5), again(read.problem, 5);
    launch(*executable_of(internal), plain);
    launch(*executable_of(write), written);
    const Fields& fields = internal.problem.fields;
    EXPECT_EQ(test::wrong_block_mask(write.problem, written,
                                     mask.mask_mod(written, fields.integer("seq_q"), fields.integer("seq_kv"))),
              "");
    std::memcpy(again["block_mask"].data, written["block_mask"].data, bytes_of(written, "block_mask"));
    launch(*executable_of(read), again);
    for (const char* output : {"o", "lse"}) {
      EXPECT_EQ(std::memcmp(plain[output].data, written[output].data, bytes_of(plain, output)), 0) << output;
      EXPECT_EQ(std::memcmp(plain[output].data, again[output].data, bytes_of(plain, output)), 0) << output;
    }
  }
}

// A kernel that reads a masked tile multiplies its NaNs by weights of 0, which gives NaN.
TEST_F(AttentionMaskGpu, SkipsFullyMaskedTiles) {
  const Problem problem = test::modified("heads=2,seq_q=190,seq_kv=250,head_dim=64,dtype=f16",
                                         {{"mask_mod", test::mask_source("(q / 64 + k / 64) % 2 == 0")}});
  for (const char* fields : {"variant=simt,tile_q=64,tile_kv=32", "variant=mma,tile_q=128,warps=4,tile_kv=64,stages=1",
                             "variant=mma,tile_q=64,warps=4,tile_kv=32,stages=3", "variant=wgmma,tile_q=64,tile_kv=64",
                             "variant=wgmma,tile_q=64,tile_kv=32,q_stages=1"}) {
    if (device().info().arch.number() != 90 && std::string_view(fields).starts_with("variant=wgmma")) continue;
    const Case c = case_of(problem, fields);
    for (const Int poisoned : {0, 1}) {  // even or odd K/V tiles
      const AttentionArraysOnHost arrays(problem, 5);
      for (const char* array : {"k", "v"})
        for (Int i = 0; i < 250 * 2 * 64; ++i)
          if (i / (2 * 64) / 64 % 2 == poisoned) write_element(DType::f16, arrays[array].data, i, NAN);
      launch(*executable_of(c), arrays);
      for (Int i = 0; i < 190 * 2 * 64; ++i)
        ASSERT_EQ(std::isnan(arrays.real("o", i)), i / (2 * 64) / 64 % 2 == poisoned) << c.config.text() << ", " << i;
    }
  }
}

// A user function's sines: not inlined, and as exact for huge arguments as CUDA's.
TEST_F(AttentionMaskGpu, TrigonometryIsExactForLargeArguments) {
  const auto case_for = [&](const std::string& fields, const char* config) {
    return case_of(test::modified(fields, {{"score_mod", test::trigonometry_text}}), config);
  };
  const Case exact = case_for("batch=2,heads=2,seq_q=37,seq_kv=53,head_dim=16,dtype=f32", "variant=simt");
  const AttentionArraysOnHost arrays(exact.problem, 5);
  launch(*executable_of(exact), arrays);
  EXPECT_LE(test::largest_difference(exact.problem, arrays, test::trigonometry_score, nullptr), 1e-5);
  if (device().info().arch.number() != 90) return;
  const Case wgmma = case_for("heads=2,seq_q=190,seq_kv=250,head_dim=64,dtype=f16", "variant=wgmma");
  const CheckResult result = verify(*wgmma.op().parse(wgmma.problem), *executable_of(wgmma), device(), 5);
  EXPECT_TRUE(result.passed) << result.first_failure;
}

}  // namespace
}  // namespace tunesmith
