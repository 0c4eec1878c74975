#pragma once
// Checks on a CUDA binary before the driver sees it.

#include <string_view>

namespace tunesmith {

/// Throws Error(device_failed) unless `image` is an ELF file for CUDA all of whose parts lie within it. The driver takes a
/// pointer without a size and would read past the end of a truncated image.
void check_cubin(std::string_view image);

}  // namespace tunesmith
