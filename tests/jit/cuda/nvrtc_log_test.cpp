// Parsing of compiler logs.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "jit/cuda/nvrtc_diagnostics.h"
#include "jit/cuda/ptxas_log.h"
#include "tests/jit/cuda/nvrtc_fixture.h"

namespace tunesmith {
namespace {

constexpr const char* two_entries = R"(ptxas info    : 12 bytes gmem
ptxas info    : Compiling entry function 'softmax_block' for 'sm_90a'
ptxas info    : Function properties for softmax_block
ptxas         .     24 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem, 360 bytes cmem[0]
ptxas info    : Compile time = 6.867 ms
ptxas info    : Compiling entry function 'softmax_warp' for 'sm_90a'
ptxas info    : Function properties for softmax_warp
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 255 registers
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
)";

TEST(PtxasLog, ReadsEveryEntry) {
  const auto resources = parse_ptxas_log(two_entries);
  ASSERT_EQ(resources.size(), 2u);
  const KernelResources& block = resources.at("softmax_block");
  EXPECT_EQ(block.registers, 40);
  EXPECT_EQ(block.static_smem_bytes, 1024);
  EXPECT_EQ(block.local_bytes, 24);
  EXPECT_EQ(block.spill_store_bytes, 8);
  EXPECT_EQ(block.spill_load_bytes, 16);
  const KernelResources& warp = resources.at("softmax_warp");
  EXPECT_EQ(warp.registers, 255);
  EXPECT_EQ(warp.static_smem_bytes, 0);
  EXPECT_EQ(warp.local_bytes, 0);
}

TEST(PtxasLog, ReadsTheFormOfTheCommandLineTool) {
  const auto resources = parse_ptxas_log(
      "ptxas info    : Compiling entry function 'k' for 'sm_75'\n"
      "ptxas info    : Function properties for k\n"
      "    32 bytes stack frame, 28 bytes spill stores, 20 bytes spill loads\n"
      "ptxas info    : Used 32 registers, used 0 barriers, 32 bytes cumulative stack size, 384 bytes smem, 360 bytes "
      "cmem[0]");
  ASSERT_EQ(resources.count("k"), 1u);
  EXPECT_EQ(resources.at("k").spill_store_bytes, 28);
  EXPECT_EQ(resources.at("k").spill_load_bytes, 20);
  EXPECT_EQ(resources.at("k").local_bytes, 32);
  EXPECT_EQ(resources.at("k").static_smem_bytes, 384);
}

TEST(PtxasLog, IgnoresFunctionsThatTheEntryCalls) {
  const auto resources = parse_ptxas_log(
      "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
      "ptxas info    : Function properties for helper\n"
      "    512 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
      "ptxas info    : Function properties for k\n"
      "    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 20 registers, 352 bytes cmem[0]\n");
  ASSERT_EQ(resources.size(), 1u);
  EXPECT_EQ(resources.at("k").local_bytes, 16);
  EXPECT_EQ(resources.at("k").spill_store_bytes, 0);
  EXPECT_EQ(resources.at("k").registers, 20);
}

TEST(PtxasLog, SkipsUnknownLines) {
  EXPECT_TRUE(parse_ptxas_log("").empty());
  EXPECT_TRUE(parse_ptxas_log("Used 3 registers\n bytes smem\nx registers").empty());
  EXPECT_EQ(parse_ptxas_log("Compiling entry function 'k' for 'sm_80'\n: Used many registers, 99999999999999 bytes smem")
                .at("k")
                .registers,
            0);
}

TEST(PtxasLog, RemovesOnlyTimings) {
  const std::string log = without_timings(two_entries);
  EXPECT_EQ(log.find("Compile time"), std::string::npos);
  EXPECT_NE(log.find("C7510"), std::string::npos);
  EXPECT_NE(log.find("Used 40 registers"), std::string::npos);
}

TEST(NvrtcDiagnostics, FirstErrorHasItsFileAndLine) {
  EXPECT_EQ(first_error("a.cu(3): warning #177-D: variable \"u\" was declared but never referenced\n"
                        "device/vector.cuh(12): error: identifier \"nope\" is undefined\n"
                        "    return nope;\n"
                        "softmax.cuh(7): error: later\n"),
            "device/vector.cuh:12: identifier \"nope\" is undefined");
  EXPECT_EQ(first_error("f(x).cu(4): error #20: odd name\n"), "f(x).cu:4: odd name");
  EXPECT_EQ(first_error("a.cu(1): catastrophic error: cannot open source file \"b.h\"\n"),
            "a.cu:1: cannot open source file \"b.h\"");
  EXPECT_EQ(first_error("ptxas info    : 0 bytes gmem\nptxas application ptx input, line 23; error   : Unknown modifier\n"),
            "ptxas application ptx input, line 23; error   : Unknown modifier");
  EXPECT_EQ(first_error("nvrtc: error: invalid value for --gpu-architecture (-arch)\n"),
            "nvrtc: error: invalid value for --gpu-architecture (-arch)");
  // An error of the front end takes precedence over an earlier error of a tool, because it has a line number.
  EXPECT_EQ(first_error("nvrtc: error: general\na.cu(2): error: exact"), "a.cu:2: exact");
  EXPECT_EQ(first_error("ptxas info    : Used 3 registers\n"), "");
  EXPECT_EQ(first_error(""), "");
}

TEST(NvrtcDiagnostics, DumpsTheSourceUnderASafeName) {
  const TemporaryFolder folder;
  const std::string path = dump_source(folder.path() / "new" / "folder", "../soft max.cu", "__global__ int x;\n");
  EXPECT_EQ(std::filesystem::path(path).parent_path(), folder.path() / "new" / "folder");
  EXPECT_TRUE(std::filesystem::path(path).filename().string().starts_with("___soft_max-")) << path;
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), "__global__ int x;\n");
  EXPECT_NE(dump_source(folder.path(), "a.cu", "1"), dump_source(folder.path(), "a.cu", "2"));
}

TEST(NvrtcDiagnostics, DumpFallsBackToTheTemporaryFolder) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "not a folder";
  const std::string path = dump_source(folder.path() / "file" / "below", "fallback.cu", folder.path().string());
  ASSERT_FALSE(path.empty());
  EXPECT_EQ(std::filesystem::path(path).parent_path(), std::filesystem::temp_directory_path());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tunesmith
