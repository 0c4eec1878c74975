#pragma once
// Arrays that a call names, in launch order. Internal.

#include <span>
#include <vector>

#include "tunesmith/engine.h"

namespace tunesmith {

/// Returns the addresses in the order of `infos`; arrays that the call does not name are null. Throws
/// Error(invalid_argument) for a name that `infos` does not have, or that comes twice with different addresses.
std::vector<void*> in_order(std::span<const ArrayInfo> infos, std::span<const NamedArray> arrays);

}  // namespace tunesmith
