// Generated CUDA sources as one C++ translation unit for the host.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jit/compiler.h"

namespace tunesmith::host {

/// Names of the functions that the source declares as `extern "C" __global__ void`, in order.
std::vector<std::string> entry_names(std::string_view source);

/// Files by name, the main one ("unit.cpp") first: it includes every source within a namespace of its own, so that kernels
/// of one name can live in one library, and lists the entries. Line numbers stay those of the source.
std::vector<std::pair<std::string, std::string>> translation_unit(std::span<const CompileRequest> requests);

/// The headers that every unit needs beside it, by name.
std::span<const std::pair<std::string_view, std::string_view>> platform_headers();

}  // namespace tunesmith::host
