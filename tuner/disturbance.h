#pragma once
// Why times changed during a contest, as far as the device reports it.

#include <set>
#include <string>
#include <vector>

#include "jit/device.h"

namespace tunesmith {

/// Compares the conditions before, during and after measurements.
class Disturbance {
 public:
  /// Adds what is so now. Returns whether another process came to the device or left it since the last call.
  bool observe(const DeviceConditions& now);

  /// "clocks fell from 1980 to 1620 MHz: power cap; another process uses the GPU: pid 1234", or empty.
  std::string text() const;

 private:
  bool observed_ = false;
  DeviceConditions last_;
  std::vector<std::string> clock_changes_;
  std::set<int> other_processes_;
};

}  // namespace tunesmith
