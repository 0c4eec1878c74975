// `tunesmith source --split DIR`: what it writes compiles as its help says, `nvcc -I DIR`; or with NVRTC, to which the
// headers are given by name.

#include <cstdlib>
#include <fstream>

#include "jit/cuda/nvrtc_library.h"
#include "tests/api/cli/process.h"
#include "tests/jit/cuda/nvrtc_fixture.h"

namespace tunesmith::cli {
namespace {

namespace fs = std::filesystem;

bool has_nvcc() { return std::system("command -v nvcc > /dev/null 2>&1") == 0; }

/// Compiles the file "OP.cu" of a folder for an architecture such as "sm_90a"; returns the log, empty if it succeeds.
std::string compile_with_nvcc(const fs::path& folder, const std::string& op, const std::string& arch) {
  const fs::path log = folder / "nvcc.log";
  const std::string command = "nvcc -Werror all-warnings -I '" + folder.string() + "' -arch=" + arch + " -cubin -o '" +
                              (folder / "out.cubin").string() + "' '" + (folder / (op + ".cu")).string() + "' > '" +
                              log.string() + "' 2>&1";
  if (std::system(command.c_str()) == 0) return {};
  std::ostringstream text;
  text << std::ifstream(log).rdbuf();
  return text.str() + " ";
}

std::string compile_with_nvrtc(const nvrtc::Functions& functions, const fs::path& folder, const std::string& op,
                               const std::string& arch) {
  std::vector<std::string> names, contents;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".cuh" && entry.path().extension() != ".cu") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    names.push_back(fs::relative(entry.path(), folder).string());
    contents.push_back(text.str());
  }
  std::vector<const char*> header_names, headers;
  const char* main = nullptr;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == op + ".cu") {
      main = contents[i].c_str();
    } else {
      header_names.push_back(names[i].c_str());
      headers.push_back(contents[i].c_str());
    }
  }
  if (main == nullptr || headers.empty()) return "no " + op + ".cu or no headers were written";
  nvrtc::Program program = nullptr;
  functions.create_program(&program, main, (op + ".cu").c_str(), static_cast<int>(headers.size()), headers.data(),
                           header_names.data());
  const std::string target = "--gpu-architecture=compute_" + arch.substr(3);
  const char* const options[] = {target.c_str(), "--std=c++20"};
  const nvrtc::Result result = functions.compile_program(program, 2, options);
  std::size_t size = 0;
  functions.get_program_log_size(program, &size);
  std::string log(size, ' ');
  functions.get_program_log(program, log.data());
  functions.destroy_program(&program);
  return result == nvrtc::success ? std::string() : log + " ";
}

TEST_F(CliTest, SplitSourcesCompile) {
  const bool nvcc = has_nvcc();
  if (!nvcc && !has_nvrtc()) GTEST_SKIP() << "neither nvcc nor NVRTC on this machine";
  write("twice.cu",
        "__device__ float score_mod(float score, int b, int h, int q, int k, const Aux&) { return 2.0f * score; }\n");
  const std::vector<std::vector<std::string>> problems = {
      {"softmax", "--rows", "64", "--cols", "32000", "--dtype", "bf16", "--config", "variant=block"},
      {"log_softmax", "--rows", "4", "--cols", "262144", "--mask", "add", "--causal", "--config", "variant=split"},
      {"softmax_backward", "--rows", "64", "--cols", "65536", "--config", "variant=cluster"},
      {"cross_entropy", "--rows", "64", "--cols", "32000", "--dtype", "bf16", "--gradient", "in_place"},
      {"cross_entropy_backward", "--rows", "64", "--cols", "3000", "--label-smoothing", "0.1"},
      {"rms_norm", "--rows", "64", "--cols", "4096", "--dtype", "bf16", "--weight", "--rstd"},
      {"attention", "--batch", "1", "--heads", "2", "--seq-q", "512", "--head-dim", "64", "--dtype", "bf16", "--causal"},
      {"attention", "--batch", "1", "--heads", "2", "--seq-q", "512", "--head-dim", "64", "--dtype", "f32"},
      {"attention", "--batch", "1", "--heads", "2", "--seq-q", "64", "--head-dim", "64", "--dtype", "bf16", "--score-mod",
       path("twice.cu")},
  };
  std::unique_ptr<NvrtcLibrary> library;
  if (!nvcc) library = std::make_unique<NvrtcLibrary>(find_nvrtc(test_folders()));
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const std::string &op = problems[i].front(), folder = path("split" + std::to_string(i)),
                      arch = i % 2 == 0 ? "sm_90a" : "sm_90";
    std::vector<std::string> arguments{"source"};
    arguments.insert(arguments.end(), problems[i].begin(), problems[i].end());
    arguments.insert(arguments.end(), {"--arch", arch, "--split", folder});
    const Outcome outcome = run(arguments);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find(op + ".cu\n"), std::string::npos) << outcome.out;
    EXPECT_EQ(nvcc ? compile_with_nvcc(folder, op, arch) : compile_with_nvrtc(library->functions(), folder, op, arch), "")
        << op << " in " << folder;
  }
}

// The compilation finds headers by the names in the #include lines alone.
TEST_F(CliTest, SplitSourcesNeedEveryHeader) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::string folder = path("split");
  ASSERT_EQ(run({"source", "softmax", "--rows", "8", "--cols", "1024", "--arch", "sm_80", "--split", folder}).code, 0);
  const NvrtcLibrary library(find_nvrtc(test_folders()));
  EXPECT_EQ(compile_with_nvrtc(library.functions(), folder, "softmax", "sm_80"), "");
  ASSERT_TRUE(fs::remove(fs::path(folder) / "device" / "reduce.cuh"));
  EXPECT_NE(compile_with_nvrtc(library.functions(), folder, "softmax", "sm_80").find("device/reduce.cuh"),
            std::string::npos);
}

TEST_F(CliTest, FoldOmitsBranchesThatAreNotTaken) {
  const std::vector<std::string> source{"source", "softmax", "--rows", "8",       "--cols",
                                        "1024",   "--arch",  "sm_90a", "--kernel"};
  std::vector<std::string> fold = source;
  fold.push_back("--fold");
  const Outcome all = run(source), folded = run(fold);
  ASSERT_EQ(folded.code, 0) << folded.err;
  EXPECT_NE(all.out.find("if constexpr (shape.logarithm)"), std::string::npos);
  EXPECT_EQ(folded.out.find("if constexpr (shape."), std::string::npos);
  EXPECT_NE(folded.out.find("void softmax_resident("), std::string::npos);
}

}  // namespace
}  // namespace tunesmith::cli
