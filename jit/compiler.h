#pragma once
// Source -> binary. Implementations: jit/cuda/nvrtc_compiler.h (cubin) and jit/host/compiler.h (shared library).

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tunesmith/types.h"

namespace tunesmith {

/// Resource usage of one kernel, as the compiler reported it.
struct KernelResources {
  int registers = 0;  ///< per thread
  int static_smem_bytes = 0;
  int local_bytes = 0;  ///< stack frame per thread
  int spill_store_bytes = 0, spill_load_bytes = 0;
};

/// One translation unit to compile.
struct CompileRequest {
  std::string name;  ///< shown in diagnostics, e.g. "softmax.cu"
  std::string source;
  Arch arch;
};

/// A compiled translation unit. A Device loads the image.
struct Binary {
  std::string image;                                 ///< cubin, or a host shared library
  std::string log;                                   ///< compiler output, warnings included
  std::map<std::string, KernelResources> resources;  ///< by entry name
  double compile_ms = 0;                             ///< 0 if it came from the cache
  double open_compiler_ms = 0;                       ///< before that, on the first compilation of a process
};

/// Compiles source to a binary. Thread-safe: compile() may run on many threads at once.
class Compiler {
 public:
  virtual ~Compiler() = default;

  /// Returns everything about the toolchain that can change its output: name, version, build-id, environment. Does not open
  /// the toolchain if that is slow. Part of every binary's fingerprint.
  virtual std::string identity() const = 0;
  /// Returns the canonical option list for an architecture, separated by spaces. Part of the fingerprint.
  virtual std::string options(const Arch& arch) const = 0;
  /// Lists the architectures that compile() accepts, in ascending order. May open the compiler; throws Error(no_compiler).
  virtual std::vector<Arch> supported_archs() const = 0;

  /// Compiles one translation unit. Throws Error(compile_failed) with the log, the options and the path of the dumped
  /// source, Error(no_compiler) if no compiler is found, and Error(unsupported) for an unknown architecture.
  virtual Binary compile(const CompileRequest& request) const = 0;
  /// Returns the PTX (on the host, the assembly) of the same compilation. Throws the same errors.
  virtual std::string assembly(const CompileRequest& request) const = 0;
};

/// Computes the key of a binary: the key of its source, a hyphen, and 32 hex digits over options, arch and toolchain
/// identity. Throws what Compiler::identity() throws.
std::string binary_fingerprint(const Compiler& compiler, const Arch& arch, std::string_view source_key);

}  // namespace tunesmith
