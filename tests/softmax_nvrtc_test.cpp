// Generated softmax sources: NVRTC accepts them for every architecture, the machine code is what was asked for, and nvcc
// takes them as they stand.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "api/engine_parts.h"
#include "templates/render.h"
#include "tests/softmax_cases.h"
#include "tunesmith/hash.h"

namespace tunesmith {
namespace {

const char* const archs[] = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"};

class SoftmaxNvrtc : public testing::Test {
 protected:
  void SetUp() override {
    try {
      compiler_ = open_compiler(DeviceInfo::Kind::cuda, EngineOptions::from_environment());
      supported_ = compiler_->supported_archs();
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::no_compiler);
      FAIL() << "NVRTC is needed by this test: " << error.what();
    }
  }

  bool supports(const Arch& arch) const { return std::ranges::find(supported_, arch) != supported_.end(); }

  /// Compiles all sources on two threads; every distinct one once.
  void compile_all(const std::vector<std::pair<std::string, Arch>>& sources) {
    std::atomic<std::size_t> next = 0;
    std::mutex mutex;
    const auto work = [&] {
      for (std::size_t i = next++; i < sources.size(); i = next++) {
        const auto& [source, arch] = sources[i];
        try {
          const Binary binary = compiler_->compile({"softmax.cu", source, arch});
          const std::lock_guard lock(mutex);
          EXPECT_FALSE(binary.image.empty());
          ASSERT_TRUE(binary.resources.contains("softmax")) << binary.log;
          // What the search space promises: no candidate drowns in spills.
          EXPECT_LE(binary.resources.at("softmax").spill_store_bytes, 256) << name(arch) << "\n" << source.substr(0, 500);
        } catch (const Error& error) {
          const std::lock_guard lock(mutex);
          ADD_FAILURE() << name(arch) << ": " << error.what() << "\n" << error.log() << source.substr(0, 500);
        }
      }
    };
    std::thread other(work);
    work();
    other.join();
  }

  std::shared_ptr<Compiler> compiler_;
  std::vector<Arch> supported_;
  const Op& op_ = find_op("softmax");
};

TEST_F(SoftmaxNvrtc, SupportsTheArchitecturesOfThisCentury) {
  for (const char* arch : archs) EXPECT_TRUE(supports(parse_arch(arch))) << arch;
}

TEST_F(SoftmaxNvrtc, EdgeProblemsCompileForEveryArchitecture) {
  std::vector<std::pair<std::string, Arch>> sources;
  std::set<std::string> seen;
  std::uint64_t seed = 1;
  for (const Problem& problem : test::edge_problems(100))
    for (const char* arch_name : {archs[seed % 7], archs[(seed + 3) % 7]}) {
      const Arch arch = parse_arch(arch_name);
      for (const Config& config : test::sample_space(problem, generic_device(arch), 3, seed++)) {
        std::string source = render(op_, problem, config);
        if (seen.insert(hash_hex(source) + arch_name).second) sources.emplace_back(std::move(source), arch);
      }
    }
  compile_all(sources);
}

TEST_F(SoftmaxNvrtc, TheQuickSpaceOfCommonShapesCompilesForEveryArchitecture) {
  std::vector<std::pair<std::string, Arch>> sources;
  for (const char* fields :
       {"rows=4096,cols=1024", "rows=4096,cols=32000,dtype=bf16", "rows=16,cols=262144,dtype=f16,out_dtype=f32"})
    for (const char* arch_name : archs) {
      const Arch arch = parse_arch(arch_name);
      const Problem problem = op_.normalize({"softmax", parse_fields(fields, "problem")});
      for (const Config& config : op_.search_space(problem, generic_device(arch), Effort::quick))
        sources.emplace_back(render(op_, problem, config), arch);
    }
  compile_all(sources);
}

// The asked cache hints and vector widths stand in the PTX, for every hint and every width.
TEST_F(SoftmaxNvrtc, PtxHasTheAskedHintsAndWidths) {
  struct Width {
    const char *fields, *suffix;
  };
  const Width widths[] = {{"cols=256,dtype=f32", ".v4.b32"},
                          {"cols=256,dtype=f32,x_alignment=8,y_alignment=8", ".v2.b32"},
                          {"cols=255,dtype=f32,x_alignment=4", ".b32"},
                          {"cols=255,dtype=bf16,y_alignment=2", ".b16"}};
  const std::pair<const char*, const char*> loads[] = {{"plain", "ld.global"},
                                                       {"no_allocate", "ld.global.nc.L1::no_allocate"},
                                                       {"streaming", "ld.global.cs"},
                                                       {"evict_first", "ld.global.L2::cache_hint"},
                                                       {"evict_last", "ld.global.L2::cache_hint"}};
  const std::pair<const char*, const char*> stores[] = {
      {"plain", "st.global"}, {"streaming", "st.global.cs"}, {"evict_first", "st.global.L2::cache_hint"}};
  const Arch arch = parse_arch("sm_90a");
  for (const Width& width : widths)
    for (std::size_t i = 0; i < std::size(loads); ++i) {
      const auto& [load, load_text] = loads[i];
      const auto& [store, store_text] = stores[i % std::size(stores)];
      const Problem problem = op_.normalize({"softmax", parse_fields("rows=64," + std::string(width.fields), "problem")});
      const Config config = op_.complete_config(
          problem, generic_device(arch),
          Config{parse_fields(std::string("variant=warp,lanes=32,load=") + load + ",store=" + store, "config")});
      const std::string ptx = compiler_->assembly({"softmax.cu", render(op_, problem, config), arch});
      SCOPED_TRACE(config.text() + " " + width.suffix);
      EXPECT_NE(ptx.find(std::string(load_text) + width.suffix + " "), std::string::npos);
      EXPECT_NE(ptx.find(std::string(store_text) + width.suffix + " "), std::string::npos);
      // And no other load or store of global memory: a wrong width or hint beside the right one would show here.
      std::size_t others = 0;
      for (const char* kind : {"ld.global", "st.global"})
        for (std::size_t at = ptx.find(kind); at != std::string::npos; at = ptx.find(kind, at + 1)) {
          const std::string instruction = ptx.substr(at, ptx.find(' ', at) - at);
          others +=
              instruction != std::string(load_text) + width.suffix && instruction != std::string(store_text) + width.suffix;
        }
      EXPECT_EQ(others, 0U);
      const std::string l(load), s(store);
      EXPECT_EQ(l == "evict_last", ptx.find("createpolicy.fractional.L2::evict_last") != std::string::npos);
      EXPECT_EQ(l == "evict_first" || s == "evict_first",
                ptx.find("createpolicy.fractional.L2::evict_first") != std::string::npos);
    }
}

TEST_F(SoftmaxNvrtc, ARowInRegistersIsReadOnce) {
  // 8 vectors a thread: eight loads, eight stores, no loop around them.
  const Problem problem = op_.normalize({"softmax", parse_fields("rows=64,cols=8192", "problem")});
  const Arch arch = parse_arch("sm_90a");
  const Config config =
      op_.complete_config(problem, generic_device(arch), Config{parse_fields("variant=block,threads=256,load=plain", "c")});
  const std::string ptx = compiler_->assembly({"softmax.cu", render(op_, problem, config), arch});
  const auto count = [&](const std::string& what) {
    std::size_t n = 0;
    for (std::size_t at = ptx.find(what); at != std::string::npos; at = ptx.find(what, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("ld.global.v4.b32"), 8U);
  EXPECT_EQ(count("st.global.v4.b32"), 8U);
}

TEST_F(SoftmaxNvrtc, NvccTakesASampleAsItStands) {
  if (std::system("command -v nvcc > /dev/null 2>&1") != 0) GTEST_SKIP() << "nvcc is not installed";
  const auto folder = std::filesystem::temp_directory_path() / "tunesmith-nvcc-test";
  std::filesystem::create_directories(folder);
  for (const auto& [fields, variant] : {std::pair{"rows=4096,cols=32000,dtype=bf16", "block"},
                                        {"rows=4096,cols=513,dtype=f16,out_dtype=f32", "warp"},
                                        {"rows=4096,cols=262144", "online"}}) {
    const Problem problem = op_.normalize({"softmax", parse_fields(fields, "problem")});
    const Arch arch = parse_arch("sm_90a");
    const Config config =
        op_.complete_config(problem, generic_device(arch), Config{parse_fields("variant=" + std::string(variant), "c")});
    const std::filesystem::path source = folder / (std::string(variant) + ".cu");
    std::ofstream(source) << render(op_, problem, config);
    const std::string quoted = "'" + source.string() + "'";
    EXPECT_EQ(std::system(("nvcc -arch=sm_90a -cubin -Werror all-warnings " + quoted + " -o " + quoted + ".cubin").c_str()),
              0);
  }
  // With its host pass as well, as a file of somebody's own program.
  EXPECT_EQ(
      std::system(
          ("nvcc -arch=sm_80 -c '" + (folder / "warp.cu").string() + "' -o '" + (folder / "warp.o").string() + "'").c_str()),
      0);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tunesmith
