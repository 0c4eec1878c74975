// The system's C++ compiler as a Compiler: generated CUDA source becomes a shared library that HostDevice runs.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "jit/compiler.h"

namespace tunesmith {

struct HostCompilerOptions {
  /// A path, or a name on PATH. Empty: the first of c++, g++, clang++ that is on PATH.
  std::string compiler;
  /// Behind the executor's own options, e.g. {"-g", "-fsanitize=address"}; part of options() and so of fingerprints.
  std::vector<std::string> extra_flags;
  /// Where the source of a failed compilation is left. Empty: the folder for temporary files.
  std::filesystem::path dump_folder;
};

/// Thread-safe. Needs a compiler of the GCC or Clang family that knows C++20.
class HostCompiler final : public Compiler {
 public:
  explicit HostCompiler(HostCompilerOptions options = {});
  ~HostCompiler() override;

  /// The compiler's version line, machine, and a digest of what the executor adds. The first call starts the compiler
  /// (a few milliseconds); throws Error(no_compiler) that lists what was looked for.
  std::string identity() const override;
  std::string options(const Arch& arch) const override;
  /// Everything from sm_75: the source is compiled as if for that architecture, so that its `#if TUNESMITH_SM` hold.
  std::vector<Arch> supported_archs() const override;

  Binary compile(const CompileRequest& request) const override;
  /// x86-64 or AArch64 assembly.
  std::string assembly(const CompileRequest& request) const override;

  /// One shared library of all requests, not optimized: about 40 ms of CPU time a kernel with g++, where compile() takes
  /// 200. Call it on several threads, a share of the requests each, to use more cores. HostDevice::load_all() gives a module
  /// per request; resources() lists the kernels of all. Kernels of different requests may have the same names. When one does
  /// not compile, the error is the one that compile() throws for it. Throws Error(invalid_argument) without requests.
  Binary compile_many(std::span<const CompileRequest> requests) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tunesmith
