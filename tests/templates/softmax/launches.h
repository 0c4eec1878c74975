#pragma once
// Launches a problem repeatedly on a device, for tests that inspect more than verify().

#include <cstdint>
#include <string>
#include <vector>

#include "jit/executable.h"
#include "templates/op.h"
#include "tuner/device_memory.h"

namespace tunesmith::test {

/// Device arrays with random inputs. Inputs that are also outputs are restored before each launch.
class Launches {
 public:
  Launches(const Op& op, const Problem& problem, Device& device, std::uint64_t seed);

  /// Launches with poisoned outputs and returns the bytes of the output.
  std::vector<std::byte> launch(const Executable& executable) const;

 private:
  struct Array {
    ArrayInfo info;
    std::vector<std::byte> sent;
    DeviceMemory memory;
  };
  Device& device_;
  std::vector<Array> arrays_;
};

/// Launches repeatedly and describes the first launch whose output differs from the first one; empty if there is none.
std::string difference_between_launches(const Op& op, const Problem& problem, const Executable& executable, Device& device,
                                        int count);

}  // namespace tunesmith::test
