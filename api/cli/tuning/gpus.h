#pragma once
// Which GPUs a command works on.

#include <string>
#include <string_view>
#include <vector>

namespace tunesmith::cli {

/// Returns the device names of `text`: "all", or ordinals such as "0,2", each once and in this order. `count` is the number
/// of GPUs. Throws Error(invalid_argument).
std::vector<std::string> parse_gpus(std::string_view text, int count);

/// Returns the number of GPUs that CUDA sees. Throws Error(no_device) if there is none.
int count_gpus();

}  // namespace tunesmith::cli
