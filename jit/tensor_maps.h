#pragma once
// The tensor maps of a launch plan: checked and prepared once, encoded at every launch.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "jit/device.h"

namespace tunesmith {

class TensorMaps {
 public:
  /// Throws Error(unsupported), naming the array, for what the copy engine cannot do (a stride that is no multiple of 16, a
  /// box of more than 256 elements) or the device does not have; Error(invalid_argument) for a plan that contradicts itself.
  /// `device` must outlive this object.
  TensorMaps(Device& device, const LaunchPlan& plan);

  /// Writes every map into the parameter block, which is aligned to 64 bytes. `arrays` have passed Executable's check; a
  /// null one leaves zeros. Thread-safe; no allocation, no lock. Throws Error(device_failed).
  void encode(std::span<void* const> arrays, std::byte* params) const;

 private:
  struct Placed {
    std::size_t array;
    std::uint32_t offset;
    std::unique_ptr<PreparedTensorMap> map;
  };
  std::vector<Placed> maps_;
};

}  // namespace tunesmith
