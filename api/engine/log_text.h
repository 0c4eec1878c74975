#pragma once
// Lines of the log. Internal.

#include <iomanip>
#include <sstream>
#include <string>

#include "tunesmith/engine.h"

namespace tunesmith {

/// Sends one line to the engine's log, if it has one. Real numbers have two decimals.
template <typename... Pieces>
void say(const EngineOptions& options, EngineOptions::Level level, const Pieces&... pieces) {
  if (!options.log) return;
  std::ostringstream text;
  text << std::fixed << std::setprecision(2);
  (text << ... << pieces);
  options.log(level, text.str());
}

}  // namespace tunesmith
