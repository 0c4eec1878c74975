#pragma once
// A problem's arrays on a device, launched as often as a test wants: what verify() does twice, for tests that look closer.

#include <cstdint>
#include <string>
#include <vector>

#include "jit/executable.h"
#include "templates/op.h"
#include "tuner/device_memory.h"

namespace tunesmith::test {

/// Random inputs, laid out as the problem says; an output that is an input's memory is restored before each launch.
class Launches {
 public:
  Launches(const Op& op, const Problem& problem, Device& device, std::uint64_t seed);

  /// One launch from poisoned memory; the bytes of the output.
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

/// Launches so many times and says which launch was the first to differ from the first one; empty when none does.
std::string difference_between_launches(const Op& op, const Problem& problem, const Executable& executable, Device& device,
                                        int count);

}  // namespace tunesmith::test
