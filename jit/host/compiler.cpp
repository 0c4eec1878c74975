#include "jit/host/compiler.h"

#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <mutex>

#include "core/hash.h"
#include "core/temporary_directory.h"
#include "jit/host/process.h"
#include "jit/host/temporary_folder.h"
#include "jit/host/translation_unit.h"
#include "jit/host/tunesmith_host_abi.h"
#include "jit/source_line.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

constexpr Arch archs[] = {{7, 5, 0},   {8, 0, 0},  {8, 6, 0},    {8, 9, 0},  {9, 0, 0},
                          {9, 0, 'a'}, {10, 0, 0}, {10, 0, 'a'}, {12, 0, 0}, {12, 0, 'a'}};

// No contraction, so that rounding matches the GPU's separate instructions; kernels call fused_multiply_add explicitly.
const std::vector<std::string> own_flags = {"-std=c++20",      "-O1",       "-ffp-contract=off",   "-fPIC",
                                            "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden", "-Wno-psabi"};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string machine() {
  utsname names{};
  return uname(&names) == 0 ? names.machine : "unknown";
}

std::string headers_digest() {
  std::string text;
  for (const auto& [name, contents] : host::platform_headers()) text.append(name).append("\n").append(contents);
  return hash_hex(text);
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

void check_arch(const Arch& arch) {
  if (std::find(std::begin(archs), std::end(archs), arch) != std::end(archs)) return;
  std::string known;
  for (const Arch& each : archs) known += (known.empty() ? "" : ", ") + name(each);
  throw Error(ErrorCode::unsupported, "arch is ", name(arch), ", which the host executor does not know; allowed: ", known);
}

}  // namespace

struct HostCompiler::State {
  explicit State(HostCompilerOptions wanted) : options(std::move(wanted)) {}

  struct Toolchain {
    std::string command, version;
    bool clang = false;
  };

  // Searches again after a failure, because the user may install a compiler.
  const Toolchain& toolchain() {
    const std::lock_guard lock(mutex);
    if (!found.command.empty()) return found;
    const std::vector<std::string> candidates =
        options.compiler.empty() ? std::vector<std::string>{"c++", "g++", "clang++"} : std::vector{options.compiler};
    const host::TemporaryFolder folder;
    for (const std::string& candidate : candidates) {
      if (host::run_process({candidate, "--version"}, folder.path() / "version").exit_code != 0) continue;
      const std::string text = folder.read("version");
      found = {candidate, first_line(text), text.find("clang") != std::string::npos};
      return found;
    }
    std::string looked_for;
    for (const std::string& candidate : candidates) looked_for += (looked_for.empty() ? "" : ", ") + candidate;
    throw Error(ErrorCode::no_compiler, "no C++ compiler for the host executor; tried ", looked_for,
                options.compiler.empty() ? " on PATH" : " (the requested compiler)", "; install g++ or clang++");
  }

  std::string options_text(const Arch& arch) const {
    std::string text;
    for (const std::string& flag : flags()) text += flag + " ";
    return text + "-DTUNESMITH_SM=" + std::to_string(arch.number() * 10);
  }

  std::vector<std::string> flags() const {
    std::vector<std::string> all = own_flags;
    all.insert(all.end(), options.extra_flags.begin(), options.extra_flags.end());
    return all;
  }

  std::string build(std::span<const CompileRequest> requests, bool assembly, std::string& log);
  Error failure(const CompileRequest& request, const std::string& log, int exit_code) const;

  const HostCompilerOptions options;
  std::mutex mutex;
  Toolchain found;
};

// Compiles one translation unit and returns the library or the assembly.
std::string HostCompiler::State::build(std::span<const CompileRequest> requests, bool assembly, std::string& log) {
  for (const CompileRequest& request : requests) check_arch(request.arch);
  const Toolchain& tool = toolchain();
  const host::TemporaryFolder folder;
  for (const auto& [name, contents] : host::platform_headers()) folder.write(name, contents);
  const auto files = host::translation_unit(requests);
  for (const auto& [name, contents] : files) folder.write(name, contents);

  std::vector<std::string> words = {tool.command};
  // -O0 compiles three times as many kernels in the same time.
  if (requests.size() > 1) words.emplace_back("-O0");
  // g++ collects garbage from 30 MB on by default, for a twentieth of its time.
  if (requests.size() > 1 && !tool.clang) words.emplace_back("--param=ggc-min-heapsize=300000");
  for (std::string& flag : flags())
    if (requests.size() == 1 || flag != own_flags[1]) words.push_back(std::move(flag));
  if (!tool.clang) words.push_back("-fno-gnu-unique");  // unique symbols would prevent unloading the library
  words.push_back("-I" + folder.path().string());
  const std::string output = folder.path() / "output";
  for (const char* word : {assembly ? "-S" : "-shared", "-o", output.c_str()}) words.emplace_back(word);
  words.push_back(folder.path() / files[0].first);
  // Without the runtime library of -fsanitize=alignment, whose handler is in tunesmith_kernel_library.h.
  if (!assembly) words.insert(words.end(), {"-nodefaultlibs", "-lm", "-lc", "-lgcc"});

  const int exit_code = host::run_process(words, folder.path() / "log").exit_code;
  log = folder.read("log");
  replace_all(log, folder.path().string() + "/", "");
  if (exit_code == 0) return folder.read("output");
  // Compile the requests one by one to find the one that fails.
  std::string alone;
  for (std::size_t i = 0; requests.size() > 1 && i < requests.size(); ++i) build(requests.subspan(i, 1), true, alone);
  throw failure(requests[0], log, exit_code);
}

Error HostCompiler::State::failure(const CompileRequest& request, const std::string& log, int exit_code) const {
  std::error_code no_folder;
  const std::filesystem::path folder = options.dump_folder.empty() ? temporary_directory() : options.dump_folder;
  std::filesystem::create_directories(folder, no_folder);
  const std::filesystem::path stem = std::filesystem::path(request.name).stem();
  std::filesystem::path dump = folder / (stem.string() + "-" + hash_hex(request.source).substr(0, 12) + ".cu");
  std::ofstream out(dump, std::ios::binary);
  out << request.source;
  out.close();
  if (!out) dump.clear();

  const std::size_t at = log.find("error:");
  const std::size_t begin = at == std::string::npos ? 0 : log.rfind('\n', at) + 1;
  const std::string summary = first_line(log.substr(begin));
  return Error(ErrorCode::compile_failed, request.name, " does not compile for the host (", found.command, " ended with ",
               exit_code, "): ", summary.empty() ? "no message" : summary, shown_line(request.source, request.name, summary),
               dump.empty() ? "" : "; the source is " + dump.string())
      .with_compilation(log, options_text(request.arch), dump.string());
}

HostCompiler::HostCompiler(HostCompilerOptions options) : state_(std::make_unique<State>(std::move(options))) {}
HostCompiler::~HostCompiler() = default;

std::string HostCompiler::identity() const {
  return state_->toolchain().version + "; " + machine() + "; host executor ABI " +
         std::to_string(tunesmith_host_abi::version) + " " + headers_digest();
}

std::string HostCompiler::options(const Arch& arch) const { return state_->options_text(arch); }

std::vector<Arch> HostCompiler::supported_archs() const { return {std::begin(archs), std::end(archs)}; }

Binary HostCompiler::compile(const CompileRequest& request) const { return compile_many({&request, 1}); }

Binary HostCompiler::compile_many(std::span<const CompileRequest> requests) const {
  if (requests.empty()) throw Error(ErrorCode::invalid_argument, "requests is empty; expected at least one");
  const auto start = std::chrono::steady_clock::now();
  Binary binary;
  binary.image = state_->build(requests, false, binary.log);
  for (const CompileRequest& request : requests)
    for (const std::string& entry : host::entry_names(request.source)) binary.resources[entry] = {};
  binary.compile_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return binary;
}

std::string HostCompiler::assembly(const CompileRequest& request) const {
  std::string log;
  return state_->build({&request, 1}, true, log);
}

}  // namespace tunesmith
