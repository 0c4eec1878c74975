// Compiles and runs small kernels for the host executor's tests.
#pragma once

#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "jit/host/compiler.h"
#include "jit/host/device.h"
#include "tests/support/source_folder.h"
#include "tunesmith/error.h"

namespace tunesmith {

/// Returns a header of templates/ without its includes.
inline std::string device_header(const std::string& name) {
  std::ifstream in(source_folder() / "templates/device" / name);
  if (!in) throw std::runtime_error("templates/device/" + name + " is missing");
  std::string text;
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with("#include") && !line.starts_with("#pragma once")) text += line + "\n";
  return text;
}

/// Returns a source as from rendering: types, the platform, then `text`.
inline std::string kernel_source(const std::string& text) {
  return device_header("integers.cuh") + device_header("types.cuh") +
         "\n#ifdef TUNESMITH_HOST_EXECUTOR\n#include <tunesmith_platform_host.h>\n#endif\n#line 1 \"kernel.cu\"\n" + text;
}

inline CompileRequest request(const std::string& text, Arch arch = {9, 0, 'a'}) {
  return {"kernel.cu", kernel_source(text), arch};
}

inline KernelLaunch launch_of(std::string entry, Dim3 grid, Dim3 block) {
  KernelLaunch launch;
  launch.entry = std::move(entry);
  launch.grid = grid;
  launch.block = block;
  return launch;
}

/// Returns options that compile kernels with the sanitizers of the test itself.
inline HostCompilerOptions test_compiler_options() {
  HostCompilerOptions options;
#if defined(__SANITIZE_ADDRESS__)
  options.extra_flags = {"-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"};
#elif defined(__SANITIZE_THREAD__)
  options.extra_flags = {"-g", "-fsanitize=thread"};
#else
  options.extra_flags = {"-fsanitize=alignment"};
#endif
  return options;
}

/// Kernels that are compiled once and run many times.
class Kernels {
 public:
  explicit Kernels(const std::string& text, HostDeviceOptions options = {}) : Kernels(request(text), std::move(options)) {}
  explicit Kernels(const CompileRequest& request, HostDeviceOptions options = {})
      : device(std::move(options)), module(device.load(HostCompiler(test_compiler_options()).compile(request))) {}

  template <typename Params>
  void run(const KernelLaunch& launch, const Params& params) {
    device.prepare(*module, launch)->enqueue(&params, nullptr);
  }

  HostDevice device;
  std::shared_ptr<Module> module;
};

}  // namespace tunesmith
