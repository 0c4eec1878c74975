// Combines generated CUDA sources into one C++ translation unit for the host.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jit/compiler.h"

namespace tunesmith::host {

/// Lists the functions that the source declares as `extern "C" __global__ void`, in order.
std::vector<std::string> entry_names(std::string_view source);

/// Returns the unit's files by name, the main one ("unit.cpp") first. It includes every source within a namespace of its
/// own, so that kernels of the same name can be in one library, and lists the entries. Line numbers refer to the source.
std::vector<std::pair<std::string, std::string>> translation_unit(std::span<const CompileRequest> requests);

/// Returns the headers that every unit includes, by name.
std::span<const std::pair<std::string_view, std::string_view>> platform_headers();

}  // namespace tunesmith::host
