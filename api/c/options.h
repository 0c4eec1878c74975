#pragma once
// tunesmith_options, of this or an older or newer header, as EngineOptions. Internal.

#include "tunesmith/c_api.h"
#include "tunesmith/engine.h"

namespace tunesmith {

/// `options` may be nullptr. Throws Error(invalid_argument).
EngineOptions options_from_c(const tunesmith_options* options);

}  // namespace tunesmith
