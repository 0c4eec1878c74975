#pragma once
// (operation, problem, configuration) -> loaded executable, through the cache: the only path from a configuration to a
// kernel.

#include <memory>
#include <string>

#include "cache/cache.h"
#include "jit/compiler.h"
#include "jit/executable.h"
#include "templates/render.h"
#include "tuner/phases.h"

namespace tunesmith {

/// The parts of an engine that building and tuning need. All must outlive every user.
struct Workbench {
  Device& device;
  const Compiler& compiler;
  Cache& cache;
  const TemplateSet& templates;
};

struct Built {
  std::string fingerprint;  ///< empty without a compiler
  std::string source_hash;  ///< of the text that was compiled: Cache::find_source()
  std::string source;       ///< that text; empty when the binary came from the cache
  Binary binary;
  bool from_cache = false;  ///< no compiler was run
  Phases phases;
};

/// Whether a binary that had to be compiled goes into the cache at once. A store waits for the disk (milliseconds), so a
/// search over many candidates keeps only those that will be launched again.
enum class Keep : std::uint8_t { now, later };

/// Takes the binary of a source from the cache, or renders, compiles and stores it. With Keep::now, one process compiles a
/// binary while others that share the cache file wait for it. Throws what Compiler::compile throws; without a compiler, any
/// toolchain's binary of the same source and arch will do. Thread-safe.
Built build_binary(const KernelSource& source, const Arch& arch, const Compiler& compiler, Cache& cache,
                   Keep keep = Keep::now);
/// Renders and compiles, whatever is in the cache, and sets everything in `built` but the fingerprint. Throws what
/// Compiler::compile throws.
void compile(const KernelSource& source, const Arch& arch, const Compiler& compiler, Built& built);
/// Stores what Keep::later left out; does nothing for a binary that came from the cache.
void keep_binary(const Op& op, const Built& built, const Arch& arch, const Compiler& compiler, Cache& cache);

/// Loads it and binds the problem's launch plan.
std::shared_ptr<const Executable> make_executable(const ParsedProblem& problem, const Config& config, const Binary& binary,
                                                  Device& device);

/// "registers=40,static_smem_bytes=0,...": how a cached binary keeps what a kernel needs.
std::string text(const KernelResources& resources);
/// Reads it back; what is missing or makes no sense is 0. Never throws.
KernelResources parse_resources(const std::string& text);

}  // namespace tunesmith
