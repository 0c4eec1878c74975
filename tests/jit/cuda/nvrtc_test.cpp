// NvrtcCompiler. Needs NVRTC but no GPU.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <thread>

#include "jit/cuda/cubin.h"
#include "jit/cuda/nvrtc_compiler.h"
#include "tests/jit/cuda/nvrtc_fixture.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

constexpr const char* scale_source = R"(extern "C" __global__ void __launch_bounds__(128) scale(float* x, int n) {
  __shared__ float tile[128];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? x[i] : 0.f;
  __syncthreads();
  if (i < n) x[i] = 2.f * tile[127 - threadIdx.x];
}
)";

CompileRequest request(const char* arch, std::string source = scale_source) {
  return {"scale.cu", std::move(source), parse_arch(arch)};
}

NvrtcOptions settings(const fs::path& dump_folder = {}) {
  return {.folders = test_folders(), .dump_folder = dump_folder, .append_flags = {}};
}

TEST(Nvrtc, IdentityAndOptionsDoNotOpenTheLibrary) {
  if (!find_nvrtc(test_folders()).found()) GTEST_SKIP() << "only the loader finds NVRTC";
  // In a child process, because other tests of this process may have opened the library.
  const pid_t child = fork();
  if (child == 0) {
    if (is_mapped("libnvrtc")) _exit(77);
    const NvrtcCompiler compiler(settings());
    const std::string identity = compiler.identity();
    const bool complete =
        identity.find("libnvrtc=") != std::string::npos && identity.find("libnvrtc-builtins=") != std::string::npos;
    const bool closed = !compiler.options(parse_arch("sm_90a")).empty() && !is_mapped("libnvrtc");
    _exit(complete && closed ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "NVRTC was already open in this process; run the test by itself";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Nvrtc, AppendedFlagsArePartOfTheIdentity) {
  NvrtcOptions with_flags = settings();
  with_flags.append_flags = "-G";
  EXPECT_NE(NvrtcCompiler(settings()).identity(), NvrtcCompiler(with_flags).identity());
}

TEST(Nvrtc, OptionsAreCanonical) {
  const std::string options = NvrtcCompiler(settings()).options(parse_arch("sm_90a"));
  EXPECT_TRUE(options.starts_with("--gpu-architecture=sm_90a --std=c++20")) << options;
  EXPECT_EQ(options.find("device"), std::string::npos) << options;
}

TEST(Nvrtc, MissingLibraryListsThePlacesTried) {
  const TemporaryFolder empty;
  NvrtcOptions options;
  options.folders.root = empty.path();
  options.folders.given = {empty.path() / "given"};
  const NvrtcCompiler compiler(options);
  EXPECT_FALSE(compiler.location().found());
  try {
    compiler.compile(request("sm_90a"));
    // The loader found an NVRTC as a last resort; its location is reported.
    EXPECT_TRUE(compiler.location().found());
    EXPECT_EQ(compiler.location().found_in, "loader");
    EXPECT_NE(compiler.identity(), "nvrtc none");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_compiler);
    EXPECT_NE(std::string(error.what()).find(empty.path() / "given"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("libnvrtc.so.13 by the loader"), std::string::npos) << error.what();
    EXPECT_EQ(compiler.identity(), "nvrtc none");
  }
}

TEST(Nvrtc, AFileThatIsNotALibraryThrowsNoCompiler) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "libnvrtc.so.13") << "not a library";
  NvrtcOptions options;
  options.folders.given = {folder.path()};
  const Error error = error_of([&] { NvrtcCompiler(options).supported_archs(); });
  EXPECT_EQ(error.code(), ErrorCode::no_compiler);
  EXPECT_NE(std::string(error.what()).find((folder.path() / "libnvrtc.so.13").string()), std::string::npos) << error.what();
}

class NvrtcArch : public testing::TestWithParam<const char*> {};

TEST_P(NvrtcArch, CompilesToALoadableCubinWithResources) {
  TUNESMITH_NEEDS_NVRTC();
  const NvrtcCompiler compiler(settings());
  const std::vector<Arch> archs = compiler.supported_archs();
  if (std::find(archs.begin(), archs.end(), parse_arch(GetParam())) == archs.end())
    GTEST_SKIP() << "NVRTC " << compiler.version() << " does not know " << GetParam();
  const Binary binary = compiler.compile(request(GetParam()));
  EXPECT_NO_THROW(check_cubin(binary.image));
  EXPECT_GT(binary.compile_ms, 0);
  ASSERT_EQ(binary.resources.count("scale"), 1u) << binary.log;
  EXPECT_GT(binary.resources.at("scale").registers, 0);
  EXPECT_EQ(binary.resources.at("scale").static_smem_bytes, 512);
  EXPECT_EQ(binary.log.find("Compile time"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Archs, NvrtcArch,
                         testing::Values("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"),
                         [](const auto& arch) { return std::string(arch.param); });

TEST(Nvrtc, EqualSourcesGiveEqualBinaries) {
  TUNESMITH_NEEDS_NVRTC();
  const NvrtcCompiler compiler(settings());
  const Binary first = compiler.compile(request("sm_80")), second = compiler.compile(request("sm_80"));
  EXPECT_TRUE(first.image == second.image);
  EXPECT_EQ(first.log, second.log);
}

TEST(Nvrtc, SupportedArchsAreAscendingAndHaveSpecificTargets) {
  TUNESMITH_NEEDS_NVRTC();
  const std::vector<Arch> archs = NvrtcCompiler(settings()).supported_archs();
  EXPECT_TRUE(std::is_sorted(archs.begin(), archs.end()));
  const auto has = [&](const char* arch) { return std::find(archs.begin(), archs.end(), parse_arch(arch)) != archs.end(); };
  EXPECT_TRUE(has("sm_90"));
  EXPECT_TRUE(has("sm_90a"));
  EXPECT_TRUE(has("sm_80"));
  EXPECT_FALSE(has("sm_80a"));
  EXPECT_FALSE(has("sm_90f"));
}

TEST(Nvrtc, UnknownArchIsReportedWithTheKnownOnes) {
  TUNESMITH_NEEDS_NVRTC();
  const NvrtcCompiler compiler(settings());
  for (const char* arch : {"sm_73", "sm_80a", "sm_999", "sm_90f"}) {
    const Error error = error_of([&] { compiler.compile(request(arch)); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    const std::string message = error.what();
    EXPECT_NE(message.find(std::string("arch is ") + arch), std::string::npos) << message;
    EXPECT_NE(message.find("sm_80, "), std::string::npos) << message;
    EXPECT_NE(message.find("sm_90a"), std::string::npos) << message;
  }
}

TEST(Nvrtc, FailedCompilationHasLogOptionsAndSource) {
  TUNESMITH_NEEDS_NVRTC();
  const TemporaryFolder folder;
  const NvrtcCompiler compiler(settings(folder.path()));
  const std::string source =
      "#line 41 \"softmax/softmax.cuh\"\nextern \"C\" __global__ void k(float* x) {\n  x[0] = undefined_thing;\n}\n";
  const Error error = error_of([&] { compiler.compile({"softmax.cu", source, parse_arch("sm_90a")}); });
  EXPECT_EQ(error.code(), ErrorCode::compile_failed);
  const std::string message = error.what();
  EXPECT_NE(message.find("softmax/softmax.cuh:42: identifier \"undefined_thing\" is undefined"), std::string::npos)
      << message;
  EXPECT_NE(message.find("softmax.cu does not compile for sm_90a"), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_NE(error.log().find("1 error detected"), std::string::npos) << error.log();
  EXPECT_EQ(error.options(), compiler.options(parse_arch("sm_90a")));
  EXPECT_EQ(fs::path(error.source_path()).parent_path(), folder.path());
  EXPECT_TRUE(fs::path(error.source_path()).filename().string().starts_with("softmax-"));
  std::stringstream dumped;
  dumped << std::ifstream(error.source_path()).rdbuf();
  EXPECT_EQ(dumped.str(), source);
}

TEST(Nvrtc, ReportsErrorsOfPtxas) {
  TUNESMITH_NEEDS_NVRTC();
  const TemporaryFolder folder;
  const NvrtcCompiler compiler(settings(folder.path()));
  const Error no_instruction = error_of(
      [&] { compiler.compile(request("sm_80", "extern \"C\" __global__ void k() { asm volatile(\"foo.bar;\"); }")); });
  EXPECT_EQ(no_instruction.code(), ErrorCode::compile_failed);
  EXPECT_NE(std::string(no_instruction.what()).find("ptxas"), std::string::npos) << no_instruction.what();
  // ptxas reports this error only without verbose mode.
  const Error too_large = error_of([&] {
    compiler.compile(request("sm_80",
                             "extern \"C\" __global__ void k(float* x) { __shared__ float s[1000000];"
                             " s[threadIdx.x] = x[0]; __syncthreads(); x[1] = s[3]; }"));
  });
  EXPECT_NE(std::string(too_large.what()).find("too much shared data"), std::string::npos) << too_large.what();
}

TEST(Nvrtc, LogHasWarnings) {
  TUNESMITH_NEEDS_NVRTC();
  const Binary binary =
      NvrtcCompiler(settings())
          .compile(request("sm_80", "extern \"C\" __global__ void k(float* x) { int never_read; x[0] = 1; }"));
  EXPECT_NE(binary.log.find("never_read"), std::string::npos) << binary.log;
}

TEST(Nvrtc, AssemblyIsPtxForTheVirtualArchitecture) {
  TUNESMITH_NEEDS_NVRTC();
  const std::string ptx = NvrtcCompiler(settings()).assembly(request("sm_90a"));
  EXPECT_NE(ptx.find(".target sm_90a"), std::string::npos) << ptx.substr(0, 400);
  EXPECT_NE(ptx.find(".entry scale"), std::string::npos);
  EXPECT_EQ(ptx.find('\0'), std::string::npos);
}

TEST(Nvrtc, ThreadsCompileConcurrently) {
  TUNESMITH_NEEDS_NVRTC();
  const NvrtcCompiler compiler(settings());  // not opened yet, so the threads also race to open it
  std::vector<Binary> binaries(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < binaries.size(); ++i)
      threads.emplace_back([&, i] {
        binaries[i] = compiler.compile(request("sm_80", "#define NUMBER " + std::to_string(i % 2) + "\n" + scale_source));
      });
  }
  for (const Binary& binary : binaries) EXPECT_EQ(binary.resources.count("scale"), 1u);
  EXPECT_EQ(binaries[0].image.size(), binaries[2].image.size());
}

TEST(Nvrtc, WorksInAFolderOutsideOfTheLoadersPath) {
  const NvrtcLocation installed = find_nvrtc(test_folders());
  if (!installed.found() || installed.builtins.empty()) GTEST_SKIP() << "no NVRTC with builtins in its folder";
  // Copies the files, because the loader would resolve symbolic links.
  const TemporaryFolder folder;
  const fs::path lib = folder.path() / "nvidia/cu13/lib";
  fs::create_directories(lib);
  fs::copy_file(installed.library, lib / installed.library.filename());
  fs::copy_file(installed.builtins, lib / installed.builtins.filename());
  NvrtcOptions options;
  options.folders.given = {folder.path()};
  const NvrtcCompiler compiler(options);
  const Binary binary = compiler.compile(request("sm_80"));
  EXPECT_EQ(binary.resources.count("scale"), 1u);
  EXPECT_TRUE(is_mapped((lib / installed.builtins.filename()).string())) << "builtins from elsewhere were used";
  EXPECT_EQ(compiler.identity(), NvrtcCompiler(settings()).identity()) << "the same build in another place";
}

TEST(Nvrtc, CheckCubinRejectsDamagedImages) {
  EXPECT_EQ(error_of([] { check_cubin(""); }).code(), ErrorCode::device_failed);
  EXPECT_EQ(error_of([] { check_cubin(std::string(64, 'x')); }).code(), ErrorCode::device_failed);
  std::stringstream self;
  self << std::ifstream("/proc/self/exe").rdbuf();
  EXPECT_NE(std::string(error_of([&] { check_cubin(self.str()); }).what()).find("another machine"), std::string::npos);
  TUNESMITH_NEEDS_NVRTC();
  const std::string image = NvrtcCompiler(settings()).compile(request("sm_80")).image;
  EXPECT_NO_THROW(check_cubin(image));
  for (std::size_t bytes = 0; bytes < image.size(); bytes += 97)
    EXPECT_EQ(error_of([&] { check_cubin(std::string_view(image).substr(0, bytes)); }).code(), ErrorCode::device_failed)
        << bytes;
}

}  // namespace
}  // namespace tunesmith
