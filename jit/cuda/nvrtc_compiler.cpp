#include "jit/cuda/nvrtc_compiler.h"

#include <algorithm>
#include <chrono>

#include "jit/cuda/nvrtc_diagnostics.h"
#include "jit/cuda/nvrtc_library.h"
#include "jit/cuda/ptxas_log.h"
#include "jit/source_line.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

// --minimal (12.4 and later) omits textures and the device runtime, which no template uses; this saves up to half the time
// of a small compile. If no library is found, assume a current version, so that fingerprints do not depend on it.
bool has_minimal(const NvrtcLocation& location) {
  return !location.found() || location.major >= 13 || (location.major == 12 && location.minor >= 4);
}

// NVRTC 13.0 and later keeps its own cache in the user's home folder. A hit has an empty log, without registers or warnings.
bool has_own_cache(const NvrtcLocation& location) { return !location.found() || location.major >= 13; }

constexpr const char* verbose_ptxas = "--ptxas-options=-v";

// Line information costs no compile time and lets profilers show template files. --ptxas-options=-v reports resources.
std::vector<std::string> option_list(const Arch& arch, const NvrtcLocation& location, bool virtual_arch) {
  std::string target = name(arch);
  if (virtual_arch) target.replace(0, 2, "compute");
  std::vector<std::string> options{"--gpu-architecture=" + target, "--std=c++20"};
  if (has_minimal(location)) options.push_back("--minimal");
  if (has_own_cache(location)) options.push_back("--no-cache");
  options.push_back("-lineinfo");
  if (!virtual_arch) options.push_back(verbose_ptxas);
  return options;
}

std::string space_separated(const std::vector<std::string>& options) {
  std::string text;
  for (const std::string& option : options) text += (text.empty() ? "" : " ") + option;
  return text;
}

class Program {
 public:
  Program(const nvrtc::Functions& functions, const CompileRequest& request) : functions_(functions) {
    const nvrtc::Result result =
        functions_.create_program(&program_, request.source.c_str(), request.name.c_str(), 0, nullptr, nullptr);
    if (result != nvrtc::success)
      throw Error(result == nvrtc::out_of_memory ? ErrorCode::out_of_memory : ErrorCode::compile_failed,
                  "NVRTC cannot create a program for ", request.name, ": ", functions_.get_error_string(result));
  }
  ~Program() { functions_.destroy_program(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  nvrtc::Result compile(const std::vector<std::string>& options) {
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    return functions_.compile_program(program_, static_cast<int>(pointers.size()), pointers.data());
  }
  std::string log() const {
    std::string text = fetch(functions_.get_program_log_size, functions_.get_program_log);
    while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) text.pop_back();
    return text.empty() ? text : text + "\n";
  }
  std::string cubin() const { return fetch(functions_.get_cubin_size, functions_.get_cubin); }
  std::string ptx() const {
    std::string text = fetch(functions_.get_ptx_size, functions_.get_ptx);
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return text;
  }

 private:
  template <typename Size, typename Get>
  std::string fetch(Size size_of, Get get) const {
    std::size_t size = 0;
    if (size_of(program_, &size) != nvrtc::success) return {};
    std::string text(size, '\0');
    if (size != 0 && get(program_, text.data()) != nvrtc::success) return {};
    return text;
  }

  const nvrtc::Functions& functions_;
  nvrtc::Program program_ = nullptr;
};

}  // namespace

struct NvrtcCompiler::Output {
  std::string bytes, log;
};

NvrtcCompiler::NvrtcCompiler(NvrtcOptions options) : settings_(std::move(options)) {}
NvrtcCompiler::~NvrtcCompiler() = default;

NvrtcLocation NvrtcCompiler::location() const {
  const std::lock_guard lock(mutex_);
  return locate();
}

NvrtcLocation NvrtcCompiler::locate() const {
  if (location_ == nullptr) location_ = std::make_unique<NvrtcLocation>(find_nvrtc(settings_.folders));
  return *location_;
}

const NvrtcLibrary& NvrtcCompiler::library() const {
  const std::lock_guard lock(mutex_);
  if (library_ == nullptr) {
    library_ = std::make_unique<NvrtcLibrary>(locate());
    location_ = std::make_unique<NvrtcLocation>(library_->location());
  }
  return *library_;
}

std::string NvrtcCompiler::identity() const {
  if (!location().found()) {
    try {
      library();
    } catch (const Error&) {
      // There is no NVRTC; a caller with cached binaries can continue without one.
    }
  }
  const std::lock_guard lock(mutex_);
  if (identity_.empty()) {
    identity_ = nvrtc_identity(locate());
    if (!settings_.append_flags.empty()) identity_ += " NVRTC_APPEND_FLAGS=" + settings_.append_flags;
  }
  return identity_;
}

std::string NvrtcCompiler::options(const Arch& arch) const { return space_separated(option_list(arch, location(), false)); }

std::vector<Arch> NvrtcCompiler::supported_archs() const { return library().archs(); }

std::string NvrtcCompiler::version() const {
  const NvrtcLibrary& opened = library();
  return std::to_string(opened.major()) + "." + std::to_string(opened.minor());
}

NvrtcCompiler::Output NvrtcCompiler::run(const CompileRequest& request, Format format) const {
  const NvrtcLibrary& opened = library();
  const std::vector<Arch>& archs = opened.archs();
  if (std::find(archs.begin(), archs.end(), request.arch) == archs.end()) {
    std::vector<std::string> names;
    for (const Arch& arch : archs) names.push_back(name(arch));
    throw Error(ErrorCode::unsupported, "arch is ", name(request.arch), ", which NVRTC ", opened.major(), ".",
                opened.minor(), " does not know; it supports ", join(names));
  }

  std::vector<std::string> options = option_list(request.arch, opened.location(), format == Format::ptx);
  const auto attempt = [&](Output& output) {
    Program program(opened.functions(), request);
    const nvrtc::Result result = program.compile(options);
    output.log = without_timings(program.log());
    if (result == nvrtc::success) output.bytes = format == Format::ptx ? program.ptx() : program.cubin();
    return result;
  };
  Output output;
  const nvrtc::Result result = attempt(output);
  if (!output.bytes.empty()) return output;

  std::string reason = first_error(output.log);
  if (result == nvrtc::builtin_operation_failure)
    throw Error(ErrorCode::no_compiler, "NVRTC at ", opened.location().library.string(), " is incomplete: ", reason,
                "; libnvrtc-builtins must be in the same folder");
  if (reason.empty() && result != nvrtc::success) {
    // In verbose mode, ptxas reports some errors (too much shared memory) only by its exit status.
    Output quiet;
    if (std::erase(options, verbose_ptxas) > 0 && attempt(quiet) != nvrtc::success) {
      reason = first_error(quiet.log);
      output.log += quiet.log;
    }
  }
  if (reason.empty())
    reason = result == nvrtc::success ? "NVRTC reported success but returned no code"
                                      : opened.functions().get_error_string(result);
  const std::string path = dump_source(settings_.dump_folder, request.name, request.source);
  throw Error(result == nvrtc::out_of_memory ? ErrorCode::out_of_memory : ErrorCode::compile_failed, request.name,
              " does not compile for ", name(request.arch), ": ", reason, shown_line(request.source, request.name, reason),
              path.empty() ? "" : "; the source is in ", path)
      .with_compilation(output.log, space_separated(options), path);
}

Binary NvrtcCompiler::compile(const CompileRequest& request) const {
  using Clock = std::chrono::steady_clock;
  const auto ms = [](Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); };
  const auto start = Clock::now();
  library();
  const auto opened = Clock::now();
  Output output = run(request, Format::cubin);
  Binary binary;
  binary.open_compiler_ms = ms(opened - start);
  binary.compile_ms = ms(Clock::now() - opened);
  binary.resources = parse_ptxas_log(output.log);
  binary.image = std::move(output.bytes);
  binary.log = std::move(output.log);
  return binary;
}

std::string NvrtcCompiler::assembly(const CompileRequest& request) const { return run(request, Format::ptx).bytes; }

}  // namespace tunesmith
