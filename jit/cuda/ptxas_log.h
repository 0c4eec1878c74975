#pragma once
// Parses the resource report of ptxas -v.

#include <map>
#include <string>
#include <string_view>

#include "jit/compiler.h"

namespace tunesmith {

/// Returns registers, shared memory, stack and spills by entry name, from a log of ptxas --verbose as ptxas or NVRTC prints
/// it. Skips unknown lines.
std::map<std::string, KernelResources> parse_ptxas_log(std::string_view log);

/// Removes the lines that differ between runs ("Compile time = ..."), so that equal sources give equal logs.
std::string without_timings(std::string_view log);

}  // namespace tunesmith
