#pragma once
// What ptxas -v reports about each entry.

#include <map>
#include <string>
#include <string_view>

#include "jit/compiler.h"

namespace tunesmith {

/// Registers, shared memory, stack and spills by entry name, from a log of ptxas --verbose in the forms that ptxas and NVRTC
/// print. Lines it does not know are passed over.
std::map<std::string, KernelResources> parse_ptxas_log(std::string_view log);

/// The log without the lines that differ from one run to the next ("Compile time = ..."): equal sources give equal logs.
std::string without_timings(std::string_view log);

}  // namespace tunesmith
