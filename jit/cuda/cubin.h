#pragma once
// Checks a CUDA binary before it reaches the driver.

#include <string_view>

namespace tunesmith {

/// Checks that `image` is a complete ELF file for CUDA; throws Error(device_failed) otherwise. The driver takes a pointer
/// without a size and would read past the end of a truncated image.
void check_cubin(std::string_view image);

}  // namespace tunesmith
