// Block masks of mask_mod on the host executor: their contents, that kernels skip fully masked tiles and do not evaluate
// mask_mod on unmasked ones, and that a block mask can be reused.

#include <cmath>
#include <cstring>

#include "core/half.h"
#include "tests/support/host_kernels.h"
#include "tests/templates/attention/masks.h"
#include "tuner/evaluate.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::AttentionArraysOnHost;
using test::Case;
using test::Mask;
using test::mask_source;
using Int = std::int64_t;

constexpr const char* simt = "variant=simt,tile_q=32,tile_kv=32,threads=64";

class AttentionBlockMask : public test::HostKernels {
 protected:
  /// Returns configurations with tiles smaller than, equal to and larger than 64, and with one to three stages.
  std::vector<std::string> configs() const {
    return {simt,
            "variant=simt,tile_q=64,tile_kv=48,threads=64",
            "variant=simt,tile_q=128,tile_kv=16,threads=128",
            "variant=mma,tile_q=128,warps=4,tile_kv=96,stages=1,q_in_registers=0",
            "variant=mma,tile_q=128,warps=8,tile_kv=32,stages=2,q_in_registers=1",
            "variant=mma,tile_q=64,warps=4,tile_kv=48,stages=3,q_in_registers=0",
            "variant=mma,tile_q=96,warps=3,tile_kv=112,stages=2,q_in_registers=0",
            "variant=mma,tile_q=32,warps=1,tile_kv=128,stages=2,q_in_registers=0",
            "variant=mma,tile_q=16,warps=1,tile_kv=16,stages=3,q_in_registers=1"};
  }
  void launch(const Executable& executable, const AttentionArraysOnHost& arrays) {
    std::vector<void*> addresses;
    for (const HostArray& array : arrays.all()) addresses.push_back(array.data);
    executable.enqueue(addresses, nullptr);
  }
};

Problem with(Problem problem, const char* block_mask) {
  problem.fields.set("block_mask", std::string(block_mask));
  return find_op("attention").normalize(problem);
}

void copy(const AttentionArraysOnHost& from, const AttentionArraysOnHost& to, const char* array) {
  std::memcpy(to[array].data, from[array].data, static_cast<std::size_t>(from[array].info.extent_bytes()));
}

bool is_same(const AttentionArraysOnHost& a, const AttentionArraysOnHost& b, const char* array) {
  return std::memcmp(a[array].data, b[array].data, static_cast<std::size_t>(a[array].info.extent_bytes())) == 0;
}

// Verifies every mask with every shape and alternating configurations, like the tuner; then checks the block mask.
TEST_F(AttentionBlockMask, EveryMaskAndItsBlockMaskAreCorrect) {
  const std::vector<Mask> masks = test::masks();
  const std::vector<std::string> shapes = test::masked_shapes(), all = configs();
  std::vector<Case> cases, writing;
  std::size_t turn = 0;
  for (const Mask& mask : masks)
    for (const std::string& shape : shapes) {
      const Problem problem = mask.problem(shape);
      cases.push_back(case_of(problem, all[turn++ % all.size()]));
      writing.push_back(case_of(with(problem, "write"), all[turn % all.size()]));
    }
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    ASSERT_EQ(executable.plan().kernels.size(), 2U);
    EXPECT_EQ(executable.plan().kernels[0].entry, "attention_block_mask");
    EXPECT_EQ(executable.plan().main_kernel, 1U);
    const CheckResult result = verify(*c.op().parse(c.problem), executable, device_, 3);
    EXPECT_TRUE(result.passed) << c.problem.short_text() << " | " << c.config.text() << ": " << result.first_failure;
  });
  std::size_t next = 0;
  with_executables(writing, [&](const Case& c, const Executable& executable) {
    const Mask& mask = masks[next / shapes.size()];
    SCOPED_TRACE(mask.name + ", " + shapes[next++ % shapes.size()]);
    const AttentionArraysOnHost arrays(c.problem, 5);
    launch(executable, arrays);
    EXPECT_EQ(
        test::wrong_block_mask(c.problem, arrays,
                               mask.mask_mod(arrays, c.problem.fields.integer("seq_q"), c.problem.fields.integer("seq_kv"))),
        "");
  });
}

// A kernel that reads a masked tile multiplies its NaNs by weights of 0, which gives NaN.
TEST_F(AttentionBlockMask, SkipsFullyMaskedTiles) {
  const std::string shape = "heads=2,seq_q=190,seq_kv=250,head_dim=16,dtype=f16";
  const auto problem = test::modified(shape, {{"mask_mod", mask_source("(q / 64 + k / 64) % 2 == 0")}});
  std::vector<Case> cases;
  std::vector<std::string> all = configs();
  all.insert(all.end(), {"variant=mma,tile_q=96,warps=3,tile_kv=64,stages=1,q_in_registers=0",
                         "variant=mma,tile_q=64,warps=2,tile_kv=64,stages=3,q_in_registers=1"});
  for (const std::string& config : all) {
    const Case c = case_of(problem, config);
    // Each warp of mma skips tiles by itself; all threads of a block of simt skip them together.
    const bool apart = c.config.variant() == "mma" || c.config.fields.integer("tile_q") <= 64;
    if (apart && 64 % c.config.fields.integer("tile_kv") == 0) cases.push_back(c);
  }
  ASSERT_EQ(cases.size(), 5U);
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    for (const Int poisoned : {0, 1}) {  // even or odd K/V tiles
      const AttentionArraysOnHost arrays(c.problem, 5), clean(c.problem, 5);
      for (const char* array : {"k", "v"})
        for (Int i = 0; i < 250 * 2 * 16; ++i)
          if (i / (2 * 16) / 64 % 2 == poisoned) write_element(DType::f16, arrays[array].data, i, NAN);
      launch(executable, arrays);
      launch(executable, clean);
      for (Int i = 0; i < 190 * 2 * 16; ++i) {
        const bool sees_poison = i / (2 * 16) / 64 % 2 == poisoned;
        ASSERT_EQ(std::isnan(arrays.real("o", i)), sees_poison) << c.config.text() << ", " << i;
        if (!sees_poison) {
          ASSERT_EQ(arrays.real("o", i), clean.real("o", i)) << c.config.text() << ", " << i;
        }
      }
    }
  });
}

TEST_F(AttentionBlockMask, BlockMaskIsReusableAndTrusted) {
  const Problem problem = test::masks()[3].problem("batch=2,heads=2,seq_q=150,seq_kv=203,head_dim=16,dtype=f16");
  std::vector<Case> cases;
  for (const std::string& config : configs())
    for (const char* way : {"internal", "write", "read"}) cases.push_back(case_of(with(problem, way), config));
  std::unique_ptr<AttentionArraysOnHost> internal, written;
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    SCOPED_TRACE(c.config.text());
    auto arrays = std::make_unique<AttentionArraysOnHost>(c.problem, 5);
    const std::string way = c.problem.fields.contains("block_mask") ? c.problem.fields.string("block_mask") : "internal";
    EXPECT_EQ(executable.plan().kernels.size(), way == "read" ? 1U : 2U);
    EXPECT_EQ(executable.plan().kernels[executable.plan().main_kernel].entry, "attention");
    EXPECT_EQ(executable.plan().workspace_bytes > 0, way == "internal");
    if (way != "read") {
      launch(executable, *arrays);
      (way == "write" ? written : internal) = std::move(arrays);
      return;
    }
    // Random inputs have a block mask of partial tiles only, which is valid and skips nothing.
    launch(executable, *arrays);
    for (const char* output : {"o", "lse"}) EXPECT_TRUE(is_same(*written, *internal, output)) << output;
    EXPECT_TRUE(
        c.op().parse(c.problem)->check_outputs(arrays->all(), 1000, evaluate_on(device_, executable.module())).passed);
    copy(*written, *arrays, "block_mask");
    launch(executable, *arrays);
    for (const char* output : {"o", "lse"}) EXPECT_TRUE(is_same(*arrays, *internal, output)) << output;
    // With all tiles marked as masked or as unmasked, mask_mod is not evaluated.
    auto* const words = reinterpret_cast<std::uint32_t*>((*arrays)["block_mask"].data);
    const Int count = (*arrays)["block_mask"].info.elements();
    std::fill_n(words, count, 0U);
    launch(executable, *arrays);
    EXPECT_EQ(arrays->real("lse", 7), -INFINITY);
    EXPECT_EQ(arrays->real("o", 7), 0);
    std::fill_n(words, count, ~0U);
    launch(executable, *arrays);
    // Only for tiles that contain no end of a sequence.
    const AttentionArraysOnHost& out = *arrays;
    double sum = 0;
    for (Int i = 0; i < 150; ++i) sum += out.real("lse", i) - internal->real("lse", i);
    EXPECT_GT(sum / 150, 0.5) << "mask_mod was evaluated";
  });
}

TEST_F(AttentionBlockMask, OptionChangesNeitherSourceNorKey) {
  const Op& op = find_op("attention");
  const Problem problem = test::masks()[0].problem("heads=2,seq_q=150,seq_kv=203,head_dim=16,dtype=f16");
  for (const char* way : {"write", "read"}) {
    const Problem other = with(problem, way);
    EXPECT_NE(other, problem);
    EXPECT_EQ(op.normalize(other), other);
    EXPECT_EQ(op.parse(other)->key().problem_class, op.parse(problem)->key().problem_class);
    EXPECT_EQ(op.parse(other)->tuned_as(), problem);
    EXPECT_EQ(op.parse(other)->verification_problem(), op.parse(problem)->verification_problem());
    for (const Config& config : op.parse(problem)->search_space(device_.info(), Effort::quick))
      ASSERT_EQ(render(*op.parse(other), config), render(*op.parse(problem), config));
  }
  EXPECT_EQ(with(problem, "internal"), problem);
}

// The kernel for few queries does not use a block mask, but writes it on request.
TEST_F(AttentionBlockMask, SplitEvaluatesEachPair) {
  const Mask mask = test::masks()[4];
  const Problem problem = mask.problem("batch=2,heads=4,kv_heads=2,seq_q=3,seq_kv=150,head_dim=16,dtype=bf16");
  const char* const split = "variant=split,warps=2,tile_kv=16,splits=2";
  with_executables(
      {case_of(problem, split), case_of(with(problem, "write"), split), case_of(with(problem, "read"), split)},
      [&](const Case& c, const Executable& executable) {
        const LaunchPlan& plan = executable.plan();
        const AttentionArraysOnHost arrays(c.problem, 5);
        launch(executable, arrays);
        EXPECT_TRUE(
            c.op().parse(c.problem)->check_outputs(arrays.all(), 1000, evaluate_on(device_, executable.module())).passed);
        EXPECT_EQ(plan.kernels[plan.main_kernel].entry, "attention");
        const bool writes = c.problem == with(problem, "write");
        EXPECT_EQ(plan.kernels.size(), writes ? 3U : 2U);
        if (writes) {
          EXPECT_EQ(test::wrong_block_mask(c.problem, arrays, mask.mask_mod(arrays, 3, 150)), "");
        }
      });
}

}  // namespace
}  // namespace tunesmith
