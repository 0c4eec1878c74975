#pragma once
// Grids of more blocks than one dimension has places. Internal to templates/.

#include <cstdint>

#include "tunesmith/types.h"

namespace tunesmith {

/// So many blocks or a few more, folded over y; `unit` blocks stay together in x (a cluster). Throws
/// Error(invalid_argument) beyond what a grid holds.
Dim3 folded_grid(std::int64_t blocks, std::int64_t unit = 1);

}  // namespace tunesmith
