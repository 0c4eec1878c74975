#pragma once
// Options of engines on the host executor.

#include "tunesmith/engine.h"

namespace tunesmith::test {

/// Returns options of an engine on the host executor that has no cache file and does not tune.
inline EngineOptions host_engine_options() {
  EngineOptions options;
  options.device = "host";
  options.cache_file.clear();
  options.mode = Mode::off;
  return options;
}

}  // namespace tunesmith::test
