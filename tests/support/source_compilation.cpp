#include "tests/support/source_compilation.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "core/hash.h"
#include "templates/render.h"
#include "tests/support/covering.h"

namespace tunesmith::test {

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

void SourceCompilation::SetUp() {
  try {
    compiler_ = open_compiler(DeviceInfo::Kind::cuda, EngineOptions::from_environment());
    supported_ = compiler_->supported_archs();
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::no_compiler);
    FAIL() << "NVRTC is needed by this test: " << error.what();
  }
}

bool SourceCompilation::supports(const Arch& arch) const { return std::ranges::find(supported_, arch) != supported_.end(); }

SourceCompilation::Source SourceCompilation::source_of(const Case& c, const Arch& arch) {
  return {c, render(*c.op().parse(c.problem), c.config), arch};
}

SourceCompilation::Source SourceCompilation::source_of(std::string_view op, const std::string& fields,
                                                       const std::string& config, const char* arch_name) {
  const Arch arch = parse_arch(arch_name);
  return source_of(case_of(op, fields, generic_device(arch), config), arch);
}

std::string SourceCompilation::ptx_of(const Source& source) const {
  return compiler_->assembly({source.c.problem.op + ".cu", source.text, source.arch});
}

std::string SourceCompilation::ptx_of(std::string_view op, const std::string& fields, const std::string& config) const {
  return ptx_of(source_of(op, fields, config, "sm_90a"));
}

void SourceCompilation::compile_all(const std::vector<Source>& all, int max_spilled_bytes) {
  std::vector<const Source*> sources;
  std::set<std::string> seen;
  for (const Source& source : all)
    if (seen.insert(hash_hex(source.text) + name(source.arch)).second) sources.push_back(&source);
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  int worst_spill = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < sources.size(); i = next++) {
      const Source& source = *sources[i];
      const std::string text = source.c.text() + " for " + name(source.arch);
      try {
        const Binary binary = compiler_->compile({source.c.problem.op + ".cu", source.text, source.arch});
        const std::lock_guard lock(mutex);
        EXPECT_FALSE(binary.image.empty());
        if (max_spilled_bytes != any_spills) {
          EXPECT_EQ(binary.log.find("(C75"), std::string::npos) << text << "\n" << binary.log;  // ptxas serialized wgmma
        }
        const DeviceInfo device = generic_device(source.arch);
        for (const KernelLaunch& kernel :
             source.c.op().parse(source.c.problem)->launch_plan(source.c.config, device).kernels) {
          ASSERT_TRUE(binary.resources.contains(kernel.entry)) << text << "\n" << binary.log;
          const KernelResources& resources = binary.resources.at(kernel.entry);
          // Every candidate of the search space must fit and spill little.
          EXPECT_LE(resources.spill_store_bytes, max_spilled_bytes) << text;
          EXPECT_LE(resources.static_smem_bytes + kernel.dynamic_smem_bytes, device.smem_bytes_per_block) << text;
          worst_spill = std::max(worst_spill, resources.spill_store_bytes);
        }
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        ADD_FAILURE() << text << ": " << error.what() << "\n" << error.log();
      }
    }
  };
  std::thread other(work);
  work();
  other.join();
  std::printf("%zu sources, at most %d bytes spilled\n", sources.size(), worst_spill);
}

void SourceCompilation::compile_covering(const std::vector<Source>& all, int max_spilled_bytes) {
  std::vector<Case> cases;
  std::vector<std::string> archs_of_cases;
  for (const Source& source : all) {
    cases.push_back(source.c);
    archs_of_cases.push_back(name(source.arch));
  }
  std::vector<Source> chosen;
  for (const std::size_t i : covering_indices(cases, archs_of_cases)) chosen.push_back(all[i]);
  std::printf("%zu of %zu cover all pairs: ", chosen.size(), all.size());
  compile_all(chosen, max_spilled_bytes);
}

bool SourceCompilation::has_nvcc() { return std::system("command -v nvcc > /dev/null 2>&1") == 0; }

bool SourceCompilation::nvcc_takes(const Source& source, const std::string& flags) {
  const auto folder = std::filesystem::temp_directory_path() / ("tunesmith-nvcc-test-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::filesystem::path path = folder / "sample.cu";
  std::ofstream(path) << source.text;
  const std::string command =
      "nvcc -Werror all-warnings " + flags + " '" + path.string() + "' -o '" + (folder / "sample.out").string() + "'";
  const bool taken = std::system(command.c_str()) == 0;
  std::filesystem::remove_all(folder);
  return taken;
}

}  // namespace tunesmith::test
