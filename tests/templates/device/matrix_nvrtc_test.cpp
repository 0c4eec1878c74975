// The tensor-core primitives compile with NVRTC for every architecture to the expected instructions.
#include <cstddef>

#include "tests/jit/cuda/nvrtc_fixture.h"
#include "tests/templates/device/matrix_kernels.h"

namespace tunesmith {
namespace {

constexpr const char* archs[] = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"};

NvrtcCompiler nvrtc() { return NvrtcCompiler({.folders = test_folders(), .dump_folder = {}, .append_flags = {}}); }

CompileRequest kernels_for(const char* arch) {
  return test::matrix_request(test::matrix_kernels(parse_arch(arch)), parse_arch(arch));
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(MatrixNvrtc, CompilesForEveryArchitectureAndStaysInRegisters) {
  TUNESMITH_NEEDS_NVRTC();
  const NvrtcCompiler compiler = nvrtc();
  for (const char* arch : archs) {
    const int number = parse_arch(arch).number();
    const Binary binary = compiler.compile(kernels_for(arch));
    EXPECT_EQ(binary.resources.size(), number < 80 ? 3U : number < 90 ? 6U : 7U) << arch;
    for (const auto& [entry, resources] : binary.resources) EXPECT_EQ(resources.local_bytes, 0) << arch << " " << entry;
  }
}

TEST(MatrixNvrtc, PtxHasTheInstructions) {
  TUNESMITH_NEEDS_NVRTC();
  const NvrtcCompiler compiler = nvrtc();
  for (const char* arch : archs) {
    SCOPED_TRACE(arch);
    const int number = parse_arch(arch).number();
    const std::string ptx = compiler.assembly(kernels_for(arch));
    // Per type: two products of 4 steps in k by 96 columns, and two of 4 steps by 64 columns.
    constexpr std::size_t products = 2 * 4 * (96 / 8) + 2 * 4 * (64 / 8);
    EXPECT_EQ(count_of(ptx, "mma.sync"), 2 * products) << "two types, or two halves";
    EXPECT_EQ(count_of(ptx, "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"), number < 80 ? 2 * products : 0U);
    EXPECT_EQ(count_of(ptx, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), number < 80 ? 0U : products);
    EXPECT_EQ(count_of(ptx, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"), number < 80 ? 0U : products);
    // Per type: A in 3 kernels, and B in steps of 16 columns, not transposed in the plain product and the first chained one.
    constexpr std::size_t plain = 3 * 4 + 4 * (96 / 16) + 4 * (64 / 16), transposing = 4 * (96 / 16) + 4 * (64 / 16);
    const std::size_t types = number < 80 ? 1 : 2;
    EXPECT_EQ(count_of(ptx, "ldmatrix.sync.aligned.m8n8.x4.shared.b16"), types * plain + (number < 90 ? 0 : 1));
    EXPECT_EQ(count_of(ptx, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"), types * transposing);
    EXPECT_EQ(count_of(ptx, "stmatrix.sync.aligned.m8n8.x4.shared.b16"), number < 90 ? 0U : 1U);
    EXPECT_EQ(count_of(ptx, "cp.async.cg.shared.global") > 0, number >= 80);
    EXPECT_EQ(count_of(ptx, "cvt.rn.f16x2.f32"), number < 80 ? 0U : 4U * 4);
    EXPECT_EQ(count_of(ptx, "cvt.rn.bf16x2.f32"), number < 80 ? 0U : 4U * 4);
  }
}

TEST(MatrixNvrtc, PredicateIsTheSourceSizeOfCpAsync) {
  TUNESMITH_NEEDS_NVRTC();
  const std::string ptx = nvrtc().assembly(test::matrix_request(R"(
extern "C" __global__ void copy(const char* from, int count) {
  using namespace tunesmith;
  async_copy_16(dynamic_shared() + 16 * thread_index(), from + 16 * thread_index(), thread_index() < count);
  async_copy_commit();
  async_copy_wait<2>();
})",
                                                                parse_arch("sm_80")));
  EXPECT_EQ(count_of(ptx, "selp.b32"), 1U);
  EXPECT_EQ(count_of(ptx, "cp.async.cg.shared.global"), 1U);
  EXPECT_EQ(count_of(ptx, ", 16, %r"), 1U);
  EXPECT_EQ(count_of(ptx, "cp.async.commit_group"), 1U);
  EXPECT_EQ(count_of(ptx, "cp.async.wait_group 2"), 1U);
  EXPECT_EQ(count_of(ptx, "bra"), 0U);
}

TEST(MatrixNvrtc, RejectsTypesWithoutTensorCores) {
  TUNESMITH_NEEDS_NVRTC();
  const NvrtcCompiler compiler = nvrtc();
  for (const auto& [type, arch] : {std::pair{"bf16", "sm_75"}, {"float", "sm_90a"}}) {
    const Error error = error_of([&] {
      compiler.compile(
          test::matrix_request("extern \"C\" __global__ void f(float* out) {\n"
                               "  float d[4] = {};\n"
                               "  tunesmith::multiply_accumulate_16x8x16<tunesmith::" +
                                   std::string(type == std::string("bf16") ? "bf16" : "uint32") +
                                   ">(d, {1, 2, 3, 4}, {5, 6});\n  *out = d[0];\n}",
                               parse_arch(arch)));
    });
    EXPECT_EQ(error.code(), ErrorCode::compile_failed);
    EXPECT_NE(error.log().find("tensor cores multiply f16 and, on sm_80 and later, bf16"), std::string::npos) << error.log();
  }
}

}  // namespace
}  // namespace tunesmith
