#include "api/cli/tuning/gpus.h"

#include <algorithm>
#include <charconv>
#include <thread>

#include "jit/cuda/driver.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {

std::vector<std::string> parse_gpus(std::string_view text, int count) {
  std::vector<std::string> devices;
  const auto add = [&devices](int ordinal) {
    std::string device = "cuda:" + std::to_string(ordinal);
    if (std::ranges::find(devices, device) == devices.end()) devices.push_back(std::move(device));
  };
  if (text == "all") {
    for (int ordinal = 0; ordinal < count; ++ordinal) add(ordinal);
    return devices;
  }
  std::string_view rest = text;
  do {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    int ordinal = -1;
    const auto read = std::from_chars(item.data(), item.data() + item.size(), ordinal);
    if (read.ec != std::errc() || read.ptr != item.data() + item.size() || ordinal < 0 || ordinal >= count)
      throw Error(ErrorCode::invalid_argument, "--gpus contains '", item, "'; allowed: all, or numbers from 0 to ",
                  count - 1, " separated by commas");
    add(ordinal);
  } while (!rest.empty());
  return devices;
}

int count_gpus() { return Driver::open()->initialize(); }

int compile_threads_per_gpu(int jobs, std::size_t gpus, int reserved) {
  const int count = static_cast<int>(gpus);
  if (jobs > 0) return std::max(1, jobs / count);
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::max(1, cores / count - reserved);
}

}  // namespace tunesmith::cli
