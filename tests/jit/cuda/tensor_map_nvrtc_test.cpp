// Compiles the wrappers of Hopper's instructions with NVRTC: wgmma is not serialized, nothing spills, every width exists.

#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "tests/jit/cuda/nvrtc_fixture.h"
#include "tests/jit/cuda/tensor_map_kernels.h"

namespace tunesmith::test {
namespace {

constexpr Arch hopper{9, 0, 'a'};

class HopperSource : public testing::Test {
 protected:
  void SetUp() override { TUNESMITH_NEEDS_NVRTC(); }

  Binary compile(const std::string& source, const Arch& arch = hopper) const {
    try {
      return compiler_.compile({"tensor_map_test.cu", source, arch});
    } catch (const Error& error) {
      ADD_FAILURE() << error.what() << "\n" << error.log();
      return {};
    }
  }
  std::string ptx_of(const std::string& source) const { return compiler_.assembly({"tensor_map_test.cu", source, hopper}); }

  const NvrtcCompiler compiler_{{.folders = test_folders(), .dump_folder = {}, .append_flags = {}}};
};

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

void expect_clean(const Binary& binary, std::size_t kernels) {
  EXPECT_FALSE(std::regex_search(binary.log, std::regex("C75[0-9][0-9]"))) << binary.log;
  EXPECT_EQ(binary.resources.size(), kernels) << binary.log;
  for (const auto& [entry, resources] : binary.resources) {
    EXPECT_EQ(resources.spill_store_bytes + resources.spill_load_bytes + resources.local_bytes, 0) << entry;
    EXPECT_LE(resources.registers, 168) << entry;
  }
}

TEST_F(HopperSource, ProductHasNoSerializationAndNoSpills) {
  const std::string source = tensor_map_source(product_kernel("tile", "bf16", 128, true, false));
  expect_clean(compile(source), 1);
  const std::string ptx = ptx_of(source);
  EXPECT_EQ(count_of(ptx, "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"), 4u) << "k is 64, in steps of 16";
  for (const char* const instruction :
       {"cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint",
        "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group", "cp.async.bulk.commit_group",
        "cp.async.bulk.wait_group.read", "mbarrier.init", "mbarrier.arrive.expect_tx", "mbarrier.try_wait.parity",
        "fence.mbarrier_init.release.cluster", "fence.proxy.async.shared::cta", "setmaxnreg.dec", "setmaxnreg.inc",
        "elect.sync", "wgmma.fence", "wgmma.commit_group", "wgmma.wait_group", "stmatrix.sync.aligned.m8n8.x4.shared.b16"})
    EXPECT_NE(ptx.find(instruction), std::string::npos) << instruction;
}

TEST_F(HopperSource, AllProductsHaveNoSerializationAndNoSpills) {
  std::string kernels;
  std::size_t count = 0;
  for (const char* const type : {"f16", "bf16"})
    for (const bool b_k_innermost : {true, false})
      for (const bool a_in_registers : {true, false})
        for (const int columns : {64, 256})
          kernels += product_kernel("product_" + std::to_string(count++), type, columns, b_k_innermost, a_in_registers);
  expect_clean(compile(tensor_map_source(kernels + copy_source)), count + 2);
}

// The register lists of inline PTX are strings, and a wrong number may still assemble. NVRTC numbers the operands of d in
// order, so in every instruction they must be consecutive and complete.
TEST_F(HopperSource, EveryWidthNamesItsRegistersInOrder) {
  std::string kernels;
  for (int columns = 8; columns <= 256; columns += 8) {
    for (const char* const a : {"matrix", "registers"}) {
      const std::string n = std::to_string(columns), half = std::to_string(columns / 2);
      kernels +=
          "extern \"C\" __global__ void __launch_bounds__(128, 1) width_" + n + "_" + a +
          "(MatrixDescriptor matrix, MatrixDescriptor b, float* out) {\n  float d[" + half + "];\n  for (int i = 0; i < " +
          half +
          "; ++i) d[i] = out[i];\n  uint32 registers[4];\n  for (int i = 0; i < 4; ++i) registers[i] = bits_of(out[i]);\n"
          "  wgmma_fence(d, registers);\n  wgmma<f16, Innermost::k>(d, " +
          a + ", b, true);\n  wgmma_commit();\n  wgmma_wait<0>(d, registers);\n  for (int i = 0; i < " + half +
          "; ++i) out[i] = d[i];\n}\n";
    }
  }
  const std::string source = tensor_map_source(kernels);
  expect_clean(compile(source), 64);
  const std::string ptx = ptx_of(source);
  const std::regex instruction(
      "wgmma\\.mma_async\\.sync\\.aligned\\.m64n([0-9]+)k16\\.f32\\.f16\\.f16 \\{([^}]*)\\}, "
      "(%rd[0-9]+|\\{%r[0-9]+, %r[0-9]+, %r[0-9]+, %r[0-9]+\\}), %rd[0-9]+, add, 1, 1, (0, )?0;");
  std::multiset<int> seen;
  for (std::sregex_iterator match(ptx.begin(), ptx.end(), instruction), end; match != end; ++match) {
    const int columns = std::stoi((*match)[1]);
    seen.insert(columns);
    const std::string registers = (*match)[2];
    const std::regex number("[0-9]+");
    std::vector<int> numbers;
    for (std::sregex_iterator each(registers.begin(), registers.end(), number); each != end; ++each)
      numbers.push_back(std::stoi(each->str()));
    ASSERT_EQ(numbers.size(), static_cast<std::size_t>(columns / 2));
    for (std::size_t i = 1; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], numbers[i - 1] + 1) << match->str();
    EXPECT_EQ((*match)[4].matched, (*match)[3].str().front() == '%') << "only A in shared memory may be transposed";
  }
  EXPECT_EQ(seen.size(), 64u);
  for (int columns = 8; columns <= 256; columns += 8) EXPECT_EQ(seen.count(columns), 2u) << columns;
}

TEST_F(HopperSource, HeadersAreEmptyForOtherArchitectures) {
  const std::string headers = TemplateSet::embedded().flatten("device/wgmma.cuh");
  const std::string source = headers + "extern \"C\" __global__ void nothing(int* x) { *x = 1; }\n" +
                             "namespace tunesmith { enum class L2Hint { other }; }\n";
  for (const char* const arch : {"sm_75", "sm_80", "sm_90", "sm_100a", "sm_120a"}) {
    const std::vector<Arch> known = compiler_.supported_archs();
    if (std::find(known.begin(), known.end(), parse_arch(arch)) == known.end()) continue;
    EXPECT_FALSE(compile(source, parse_arch(arch)).image.empty()) << arch;
  }
}

// The tuner searches the log for ptxas's message about accumulators that are accessed before wgmma has completed.
TEST_F(HopperSource, LogReportsSerialization) {
  const Binary binary = compile(tensor_map_source(
      "extern \"C\" __global__ void __launch_bounds__(128, 1) hasty(MatrixDescriptor a, MatrixDescriptor b, float* out) {\n "
      " float d[32];\n"
      "  wgmma_fence();\n  wgmma<bf16, Innermost::k>(d, a, b, false);\n  wgmma_commit();\n  out[threadIdx.x] = d[3];\n"
      "  wgmma_wait<0>();\n}\n"));
  EXPECT_TRUE(std::regex_search(binary.log, std::regex("\\(C75[0-9][0-9]\\)"))) << binary.log;
}

}  // namespace
}  // namespace tunesmith::test
