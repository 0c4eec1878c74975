#pragma once
// Operations over rows against a device copy of the same bytes, interleaved in one run.

#include <string>

#include "tunesmith/engine.h"

namespace tunesmith::bench {

/// Registers a benchmark of a problem. The copy is from its largest input to its largest output, as far as both reach.
/// Reports GB/s, the GB/s of the copy, and their quotient, the share of the copy.
void register_against_copy(Engine& engine, const std::string& name, const Problem& problem, Mode mode);

}  // namespace tunesmith::bench
