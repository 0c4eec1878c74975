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
  /// Appended to the executor's own options, e.g. {"-g", "-fsanitize=address"}. Part of options() and of fingerprints. With
  /// {"-fsanitize=alignment"}, a misaligned object that a kernel accesses without load() and store() is an error of the
  /// device; it takes a third more time to compile.
  std::vector<std::string> extra_flags;
  /// Folder for the source of a failed compilation. Default empty: the system's temporary folder.
  std::filesystem::path dump_folder;
};

/// Compiles with GCC or Clang (C++20). Thread-safe.
class HostCompiler final : public Compiler {
 public:
  explicit HostCompiler(HostCompilerOptions options = {});
  ~HostCompiler() override;

  /// Returns the compiler's version line, the machine, and a digest of the executor's headers. The first call runs the
  /// compiler (a few milliseconds); throws Error(no_compiler) with the names tried.
  std::string identity() const override;
  std::string options(const Arch& arch) const override;
  /// Lists the architectures from sm_75 on. The source is compiled with TUNESMITH_SM set to the requested one.
  std::vector<Arch> supported_archs() const override;

  Binary compile(const CompileRequest& request) const override;
  /// Returns x86-64 or AArch64 assembly.
  std::string assembly(const CompileRequest& request) const override;

  /// Compiles all requests into one unoptimized shared library, for HostDevice::load_all(). Takes 40 to 250 ms of CPU
  /// time per kernel with g++, less than with compile(). To use more cores, split the requests over several threads.
  /// Kernels of different requests may have the same name. If a request does not compile, throws the error that compile()
  /// throws for it. Throws Error(invalid_argument) if `requests` is empty.
  Binary compile_many(std::span<const CompileRequest> requests) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tunesmith
