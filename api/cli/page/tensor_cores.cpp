#include "api/cli/page/tensor_cores.h"

#include <charconv>
#include <string>
#include <string_view>
#include <utility>

namespace tunesmith::cli {
namespace {

/// Dense f16 or bf16 operations of a multiprocessor in one clock, a multiplication and an addition counted as two. For A100
/// and H100: the peaks that NVIDIA publishes, over multiprocessors and boost clock.
constexpr std::pair<std::string_view, double> operations_per_clock[] = {{"sm_80", 2048}, {"sm_90", 4096}};

/// Returns the number that follows `name` in the text; 0 if there is none.
double number_after(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  double value = 0;
  if (at != std::string_view::npos) std::from_chars(text.data() + at + name.size(), text.data() + text.size(), value);
  return value;
}

}  // namespace

std::optional<TensorCores> tensor_cores(const TuningRecord& record) {
  const std::string problem = record.problem + ",";
  if (problem.find("dtype=bf16,") == std::string::npos && problem.find("dtype=f16,") == std::string::npos)
    return std::nullopt;
  // "NVIDIA H200;sm_90a;sm=132;l2=60MiB"
  const std::string_view device = record.key.device_class;
  const auto clock = record.provenance.find("sm_clock_khz");
  if (clock == record.provenance.end()) return std::nullopt;
  const double clock_khz = number_after(clock->second, ""), multiprocessors = number_after(device, ";sm=");
  for (const auto& [arch, operations] : operations_per_clock)
    for (const char* suffix : {";", "a;"})
      if (device.find(";" + std::string(arch) + suffix) != std::string_view::npos && clock_khz > 0 && multiprocessors > 0)
        return TensorCores{multiprocessors * clock_khz * 1e3 * operations * 1e-12, clock_khz * 1e-3};
  return std::nullopt;
}

}  // namespace tunesmith::cli
