#pragma once
// The state that copies of a Plan share. Internal to api/, the command line, tests and benchmarks.

#include <memory>
#include <string>
#include <vector>

#include "api/engine/source_text.h"
#include "jit/executable.h"
#include "templates/op.h"
#include "tuner/phases.h"
#include "tunesmith/engine.h"

namespace tunesmith {

struct KeyChoice;

/// A source and its loaded binary, shared by all plans with the same source.
struct LoadedSource {
  explicit LoadedSource(std::function<std::string()> fetch_source) : source(std::move(fetch_source)) {}

  SourceText source;
  Binary binary;  ///< without its image, which is freed after loading
  bool from_cache = false;
  std::shared_ptr<Module> module;
};

struct Plan::State {
  std::shared_ptr<Device> device;  // first, so that it is destroyed last
  ParsedProblemPtr problem;
  KernelConfig config;
  Origin origin = Origin::by_default;
  std::int64_t capacity = 0, nearest_n_cols = 0;
  bool counts_uses = false;                     ///< one-shot calls count as uses of key_choice
  std::shared_ptr<const KeyChoice> key_choice;  ///< the records that the configuration was selected from; may be null
  std::shared_ptr<const LoadedSource> loaded;   ///< without a module if there is nothing to launch
  bool compiled = false;
  double compile_ms = 0;
  double tune_s = 0;
  Phases phases;  ///< of this preparation; a plan that found its binary loaded has no phases from digest to load
  std::unique_ptr<const Executable> executable;
};

}  // namespace tunesmith
