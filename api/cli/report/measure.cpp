#include "api/cli/report/measure.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

constexpr int warm_ups = 3;
constexpr int samples = 20;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  const double upper = *middle;
  return values.size() % 2 == 1 ? upper : (upper + *std::max_element(values.begin(), middle)) / 2;
}

/// Two arrays whose copy reads and writes `bytes` in total.
class CopyBaseline {
 public:
  CopyBaseline(Device& device, double bytes) : device_(device), bytes_(static_cast<std::size_t>(bytes / 2)) {
    if (bytes_ == 0) return;
    try {
      from_ = device_.allocate(bytes_);
      to_ = device_.allocate(bytes_);
      device_.fill(from_, 0x3c, bytes_);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::out_of_memory) throw;
    }
  }
  ~CopyBaseline() {
    device_.release(from_);
    device_.release(to_);
  }
  CopyBaseline(const CopyBaseline&) = delete;
  CopyBaseline& operator=(const CopyBaseline&) = delete;

  bool possible() const noexcept { return to_ != nullptr; }
  void enqueue(Stream stream) const { device_.copy_async(to_, from_, bytes_, stream); }

 private:
  Device& device_;
  std::size_t bytes_;
  void* from_ = nullptr;
  void* to_ = nullptr;
};

}  // namespace

std::optional<Measurement> measure(Device& device, const std::function<void(Stream)>& launch, double bytes) {
  if (device.info().kind == DeviceInfo::Kind::host) return std::nullopt;
  const CopyBaseline copy(device, bytes);
  std::vector<std::function<void(Stream)>> works;
  for (int i = 0; i < warm_ups + samples; ++i) {
    works.push_back(launch);
    if (copy.possible()) works.emplace_back([&copy](Stream stream) { copy.enqueue(stream); });
  }
  const std::vector<double> times = device.time_us(works, true);
  const std::size_t step = copy.possible() ? 2 : 1;
  std::vector<double> launches, copies, deviations;
  for (std::size_t i = warm_ups * step; i < times.size(); ++i) (i % step == 0 ? launches : copies).push_back(times[i]);
  Measurement result;
  result.samples = samples;
  result.median_us = median(launches);
  for (const double time : launches) deviations.push_back(std::fabs(time - result.median_us));
  result.mad_us = median(deviations);
  if (!copies.empty()) result.copy_median_us = median(copies);
  return result;
}

}  // namespace tunesmith::cli
