#pragma once
// Reasons to reject a candidate after its compilation, without running it.

#include <string>

#include "jit/compiler.h"
#include "templates/op.h"

namespace tunesmith {

/// One line that says why the binary is not worth verifying and timing; empty when it is:
/// - ptxas had to serialize its asynchronous matrix products, to wait where the source does not, or to ignore its wishes for
///   registers (messages C7500 to C7599 in the log): the kernel is right, and not the one that was written;
/// - a kernel spills more than Op::max_spill_bytes().
std::string why_not_worth_timing(const ParsedProblem& problem, const KernelConfig& config, const Binary& binary);

}  // namespace tunesmith
