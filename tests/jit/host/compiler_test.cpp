// HostCompiler: compiled libraries and error messages.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "tests/jit/host/kernels.h"

namespace tunesmith {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string constant_kernel(int value) {
  return "static constexpr int constant = " + std::to_string(value) + R"(;
struct Params { int* out; };
template <const int& value>
__device__ __forceinline__ void put(int* out) { *out = value; }
extern "C" __global__ void same_name(const __grid_constant__ Params params) { put<constant>(params.out); }
extern "C" __global__ void minus(const __grid_constant__ Params params) { *params.out = -constant; }
)";
}

TEST(HostCompiler, KernelsOfTheSameNameShareALibrary) {
  std::vector<CompileRequest> requests;
  for (int i = 0; i < 20; ++i) requests.push_back(request(constant_kernel(100 + i)));
  const Binary binary = HostCompiler().compile_many(requests);
  EXPECT_GT(binary.compile_ms, 0);
  EXPECT_EQ(binary.resources.count("same_name"), 1u);
  EXPECT_EQ(binary.resources.count("minus"), 1u);

  HostDevice device;
  const auto modules = device.load_all(binary);
  ASSERT_EQ(modules.size(), requests.size());
  for (int i = 0; i < 20; ++i)
    for (const bool negative : {false, true}) {
      int out = 0;
      int* params = &out;
      device.prepare(*modules[i], launch_of(negative ? "minus" : "same_name", {1}, {1}))->enqueue(&params, nullptr);
      EXPECT_EQ(out, negative ? -100 - i : 100 + i);
    }
}

TEST(HostCompiler, ModulesShareTheirLibrary) {
  const CompileRequest requests[] = {request(constant_kernel(1)), request(constant_kernel(2))};
  HostDevice device;
  std::shared_ptr<Module> second = device.load_all(HostCompiler().compile_many(requests))[1];
  std::shared_ptr<Module> again = device.load(HostCompiler().compile(request(constant_kernel(3))));
  int out = 0;
  int* params = &out;
  device.prepare(*second, launch_of("same_name", {1}, {1}))->enqueue(&params, nullptr);
  EXPECT_EQ(out, 2);
  device.prepare(*again, launch_of("same_name", {1}, {1}))->enqueue(&params, nullptr);
  EXPECT_EQ(out, 3);
}

TEST(HostCompiler, ErrorsNameTheSourceLineAndDumpTheSource) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "tunesmith_host_compiler_dump";
  std::filesystem::remove_all(folder);
  HostCompilerOptions options;
  options.dump_folder = folder;
  const HostCompiler compiler(options);
  CompileRequest broken = {"softmax.cu", "struct Params { int* out; };\n\nint wrong = undefined_name;\n", {9, 0, 'a'}};
  try {
    compiler.compile(broken);
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::compile_failed);
    EXPECT_NE(error.log().find("softmax.cu:3:13: error:"), std::string::npos) << error.log();
    EXPECT_NE(error.log().find("undefined_name"), std::string::npos);
    EXPECT_EQ(error.options(), compiler.options(broken.arch));
    EXPECT_EQ(read_file(error.source_path()), broken.source);
    EXPECT_EQ(std::filesystem::path(error.source_path()).parent_path(), folder);
    EXPECT_NE(std::string(error.what()).find("softmax.cu:3:13"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(error.source_path()), std::string::npos);
  }
  EXPECT_THROW(compiler.assembly(broken), Error);

  const CompileRequest many[] = {request(constant_kernel(1)), broken, request(constant_kernel(2))};
  try {
    compiler.compile_many(many);
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(read_file(error.source_path()), broken.source);
  }
  std::filesystem::remove_all(folder);
}

TEST(HostCompiler, ErrorHasNoPathIfTheDumpFolderIsNotWritable) {
  HostCompilerOptions options;
  options.dump_folder = "/dev/null/nowhere";
  try {
    HostCompiler(options).compile({"a.cu", "wrong\n", {9, 0, 'a'}});
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::compile_failed);
    EXPECT_EQ(error.source_path(), "");
  }
}

TEST(HostCompiler, ErrorNamesAMissingCompiler) {
  HostCompilerOptions options;
  options.compiler = "no-such-compiler++";
  const HostCompiler compiler(options);
  try {
    compiler.compile(request(constant_kernel(1)));
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_compiler);
    EXPECT_NE(std::string(error.what()).find("no-such-compiler++"), std::string::npos);
  }
  EXPECT_THROW(compiler.identity(), Error);
}

TEST(HostCompiler, RejectsUnknownArchitectures) {
  try {
    HostCompiler().compile(request(constant_kernel(1), {3, 5, 0}));
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("sm_35"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("sm_90a"), std::string::npos);
  }
  try {
    HostCompiler().compile_many({});
    FAIL() << "accepted an empty list of requests";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  }
}

TEST(HostCompiler, IdentityOptionsAndAssembly) {
  const HostCompiler compiler;
  EXPECT_EQ(compiler.identity(), HostCompiler().identity());
  EXPECT_NE(compiler.identity().find("ABI"), std::string::npos);
  EXPECT_NE(compiler.options({9, 0, 'a'}), compiler.options({8, 0, 0}));
  EXPECT_NE(compiler.options({9, 0, 'a'}).find("-ffp-contract=off"), std::string::npos);
  HostCompilerOptions options;
  options.extra_flags = {"-g"};
  EXPECT_NE(HostCompiler(options).options({9, 0, 'a'}), compiler.options({9, 0, 'a'}));
  EXPECT_NE(compiler.assembly(request(constant_kernel(1))).find(".globl\ttunesmith_host_library"), std::string::npos);
  const auto archs = compiler.supported_archs();
  EXPECT_TRUE(std::is_sorted(archs.begin(), archs.end()));
}

/// Sets TMPDIR until the end of the scope.
class TemporaryVariable {
 public:
  explicit TemporaryVariable(const char* value) {
    if (const char* const now = std::getenv("TMPDIR"); now != nullptr) before_ = now;
    setenv("TMPDIR", value, 1);
  }
  ~TemporaryVariable() {
    if (before_)
      setenv("TMPDIR", before_->c_str(), 1);
    else
      unsetenv("TMPDIR");
  }
  TemporaryVariable(const TemporaryVariable&) = delete;
  TemporaryVariable& operator=(const TemporaryVariable&) = delete;

 private:
  std::optional<std::string> before_;
};

TEST(HostCompiler, UsesTmpWhereTmpdirIsNoFolder) {
  for (const char* wrong : {"", "/nowhere/at/all", "/dev/null"}) {
    const TemporaryVariable variable(wrong);
    EXPECT_NO_THROW((void)HostDevice().load(HostCompiler().compile(request(constant_kernel(1))))) << wrong;
  }
}

// Ignored by whoever started the program, or by the program that uses the library.
TEST(HostCompiler, CompilesWhileChildrenAreNotWaitedFor) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  EXPECT_NO_THROW((void)HostDevice().load(HostCompiler().compile(request(constant_kernel(1)))));
  ErrorCode code{};
  try {
    (void)HostCompiler().compile(request("this is no source"));
  } catch (const Error& error) {
    code = error.code();
  }
  EXPECT_EQ(code, ErrorCode::compile_failed);
  HostCompilerOptions missing;
  missing.compiler = "no-such-compiler";
  EXPECT_THROW((void)HostCompiler(missing).compile(request(constant_kernel(1))), Error);
  std::signal(SIGCHLD, before);
}

TEST(HostCompiler, RemovesTemporaryFiles) {
  const auto count = [] {
    std::size_t folders = 0;
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::temp_directory_path()))
      folders += entry.path().filename().string().starts_with("tunesmith-");
    return folders;
  };
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "tunesmith_host_compiler_temporary";
  std::filesystem::create_directories(folder);
  const TemporaryVariable variable(folder.c_str());
  HostDevice device;
  const auto module = device.load(HostCompiler().compile(request(constant_kernel(1))));
  EXPECT_EQ(count(), 0u);
  EXPECT_EQ(std::filesystem::temp_directory_path(), folder);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tunesmith
