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
  /// Checks and prepares the maps. Throws Error(unsupported) with the array's name if the device has no TMA or TMA cannot
  /// load the array (a stride that is not a multiple of 16, a box of more than 256 elements), and Error(invalid_argument)
  /// for an inconsistent plan. `device` must outlive this object.
  TensorMaps(Device& device, const LaunchPlan& plan);

  /// Writes every map into the parameter block, which is aligned to 64 bytes. Executable has checked `arrays`; the map of a
  /// null array is zero. Thread-safe; takes no lock and does not allocate. Throws Error(device_failed).
  void encode(std::span<void* const> arrays, std::byte* params) const;

 private:
  struct Placed {
    std::size_t array;
    std::uint32_t offset;
    std::int64_t before_bytes;
    std::unique_ptr<PreparedTensorMap> map;
  };
  std::vector<Placed> maps_;
};

}  // namespace tunesmith
