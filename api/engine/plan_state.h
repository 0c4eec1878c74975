#pragma once
// What a Plan handle shares. Internal to api/, the command line, tests and benchmarks.

#include <memory>
#include <string>

#include "jit/executable.h"
#include "templates/op.h"
#include "tunesmith/engine.h"

namespace tunesmith {

/// A rendered source and its loaded binary; shared by all plans that differ only in what the source does not depend on.
struct LoadedSource {
  std::string source;
  Binary binary;  ///< its image is dropped once it is loaded
  bool from_cache = false;
  std::shared_ptr<Module> module;
};

struct Plan::State {
  std::shared_ptr<Device> device;  // first, so that it goes last
  ParsedProblemPtr problem;
  Config config;
  Origin origin = Origin::by_default;
  std::int64_t nearest_n_cols = 0;
  std::shared_ptr<const LoadedSource> loaded;  ///< without a module when there is nothing to launch
  bool compiled = false;
  double compile_ms = 0;
  double tune_s = 0;
  int occupancy = 0;
  double bytes = 0, flops = 0;
  std::unique_ptr<const Executable> executable;
};

}  // namespace tunesmith
