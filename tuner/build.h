#pragma once
// (operation, problem, configuration) -> loaded executable, through the cache: the one road from a decision to a kernel.

#include <memory>
#include <string>

#include "cache/cache.h"
#include "jit/compiler.h"
#include "jit/executable.h"
#include "templates/op.h"
#include "templates/template_set.h"

namespace tunesmith {

/// The parts of an engine that building and tuning need. All must outlive every user.
struct Workbench {
  Device& device;
  const Compiler& compiler;
  Cache& cache;
  const TemplateSet& templates;
};

struct Built {
  std::string source;
  Binary binary;
  bool from_cache = false;  ///< no compiler was run
  double load_ms = 0;       ///< cache lookup and module load
};

/// Renders, then takes the binary from the cache or compiles and stores it. Throws what Compiler::compile throws.
Built build_binary(const Op& op, const Problem& problem, const Config& config, const Arch& arch, const Compiler& compiler,
                   Cache& cache, const TemplateSet& templates);

/// Loads it and binds the problem's launch plan.
std::shared_ptr<const Executable> make_executable(const Op& op, const Problem& problem, const Config& config,
                                                  const Binary& binary, Device& device);

}  // namespace tunesmith
