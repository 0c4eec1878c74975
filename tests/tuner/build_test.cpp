// Builds binaries of configurations, with the cache and without a compiler.

#include "core/hash.h"
#include "tests/tuner/fakes.h"

namespace tunesmith {
namespace {

class Build : public fakes::TunerTest {
 protected:
  Built build(int width, const Arch& arch = {9, 0, 'a'}) {
    return build_binary({*op.parse(problem), fakes::AddOneOp::config(width), templates}, arch, compiler, cache);
  }
};

TEST_F(Build, CompilesOnlyOnce) {
  compiler.takes = std::chrono::milliseconds(5);
  const Built first = build(4);
  EXPECT_FALSE(first.from_cache);
  EXPECT_GE(first.binary.compile_ms, 5);
  EXPECT_NE(first.source.find("width=4"), std::string::npos);
  EXPECT_EQ(first.binary.image, first.source) << "the compiler gets the whole source";

  const Built second = build(4);
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(second.source, "") << "nothing was rendered";
  EXPECT_EQ(second.source_hash, hash_hex(first.source));
  EXPECT_EQ(second.binary.compile_ms, 0);
  EXPECT_EQ(second.binary.image, first.binary.image);
  ASSERT_TRUE(second.binary.resources.contains("add_one"));
  EXPECT_EQ(second.binary.resources.at("add_one").registers, 40);
  EXPECT_EQ(second.binary.resources.at("add_one").spill_load_bytes, 8);
  EXPECT_EQ(compiler.compilations, 1);
  EXPECT_EQ(cache.find_source(hash_hex(first.source)), first.source);
}

TEST_F(Build, ThreadsWithoutACacheFileCompileOnlyOnce) {
  Cache memory({.file = {}, .system_files = {}, .warn = {}, .remote = {}});
  compiler.takes = std::chrono::milliseconds(20);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&] {
        build_binary({*op.parse(problem), fakes::AddOneOp::config(4), templates}, {9, 0, 'a'}, compiler, memory);
      });
  }
  EXPECT_EQ(compiler.compilations, 1);
}

TEST_F(Build, BinaryDependsOnConfigurationArchAndCompiler) {
  build(4);
  build(8);
  build(4, {8, 0, 0});
  EXPECT_EQ(compiler.compilations, 3);
  compiler.version = "2";
  build(4);
  EXPECT_EQ(compiler.compilations, 4);
}

TEST_F(Build, WithoutACompilerUsesABinaryOfAnyToolchain) {
  build(4);
  compiler.version = "2";
  compiler.is_absent = true;
  EXPECT_TRUE(build(4).from_cache) << "compile() says there is none";
  compiler.has_no_identity = true;
  const Built built = build(4);
  EXPECT_TRUE(built.from_cache) << "identity() says there is none";
  EXPECT_EQ(built.binary.image, cache.find_source(built.source_hash));
  fakes::expect_error([&] { build(8); }, ErrorCode::no_compiler, "there is none");
  fakes::expect_error([&] { build(4, {8, 0, 0}); }, ErrorCode::no_compiler, "there is none");
}

TEST_F(Build, ChangedCommentsDoNotRequireACompilation) {
  const Built first = build(4);
  templates = write_templates("// why\none");
  const Built second = build(4);
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(cache.find_source(second.source_hash), first.source) << "the compiled source, not the present one";
  templates = write_templates("two");
  EXPECT_FALSE(build(4).from_cache);
}

TEST_F(Build, ReportsPhases) {
  compiler.takes = std::chrono::milliseconds(5);
  const Phases cold = build(4).phases, warm = build(4).phases;
  EXPECT_GE(cold.compile_ms, 5);
  for (const double phase_ms : {cold.digest_ms, cold.lookup_ms, cold.render_ms, cold.store_ms}) EXPECT_GT(phase_ms, 0);
  EXPECT_EQ(cold.load_ms, 0) << "building is not loading";
  for (const double phase_ms : {warm.digest_ms, warm.lookup_ms}) EXPECT_GT(phase_ms, 0);
  for (const double phase_ms : {warm.render_ms, warm.compile_ms, warm.store_ms}) EXPECT_EQ(phase_ms, 0);
}

TEST_F(Build, DoesNotCacheAFailedCompilation) {
  scripts[4].compile_fails = true;
  try {
    build(4);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::compile_failed);
    EXPECT_EQ(error.log(), "line 1");
  }
  scripts[4].compile_fails = false;
  EXPECT_FALSE(build(4).from_cache);
}

TEST_F(Build, ExecutableRunsTheProblem) {
  const Built built = build(2);
  const auto made = make_executable(*op.parse(problem), fakes::AddOneOp::config(2), built.binary, device);
  EXPECT_EQ(made->plan().kernels.size(), 1u);
  alignas(16) static float x[6400], y[6400];
  x[6399] = 41;
  const std::array<void*, 2> arrays{x, y};
  made->enqueue(arrays, nullptr);
  EXPECT_EQ(y[6399], 42);
}

TEST(Resources, RoundTrip) {
  const KernelResources resources{1, 2, 3, 4, 5};
  const std::string written = text(resources);
  EXPECT_EQ(written, "registers=1,static_smem_bytes=2,local_bytes=3,spill_store_bytes=4,spill_load_bytes=5");
  const KernelResources read = parse_resources(written);
  EXPECT_EQ(text(read), written);
}

TEST(Resources, InvalidTextIsZero) {
  for (const char* const nonsense : {"", "no", "registers=", "registers=-1", "registers=99999999999", "registers=many"})
    EXPECT_EQ(text(parse_resources(nonsense)), text(KernelResources{})) << nonsense;
  EXPECT_EQ(parse_resources("other=1,registers=7").registers, 7);
}

}  // namespace
}  // namespace tunesmith
