#pragma once
// The GPUs that a command works on.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tunesmith::cli {

/// Returns the device names of `text`: "all", or ordinals such as "0,2", each once and in this order. `count` is the number
/// of GPUs. Throws Error(invalid_argument).
std::vector<std::string> parse_gpus(std::string_view text, int count);

/// Returns the number of GPUs that CUDA sees. Throws Error(no_device) if there is none.
int count_gpus();

/// Returns the compile threads for each of `gpus` GPUs, at least 1: an equal share of `jobs`, or, if `jobs` is 0, of the
/// cores, less `reserved` for threads that launch.
int compile_threads_per_gpu(int jobs, std::size_t gpus, int reserved = 0);

}  // namespace tunesmith::cli
