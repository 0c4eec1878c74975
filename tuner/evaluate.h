#pragma once
// Runs kernels of a loaded binary on host arrays, for checks of results.

#include <memory>

#include "jit/device.h"
#include "templates/op.h"

namespace tunesmith {

/// See Evaluate. `device` must outlive the result. Arrays have device memory of their own, for the call.
Evaluate evaluate_on(Device& device, std::shared_ptr<Module> module);

}  // namespace tunesmith
