#pragma once
// The arrays that candidates are timed on: of the problem's real size, in memory of the tuner's own.

#include <span>
#include <vector>

#include "templates/op.h"
#include "tuner/device_memory.h"

namespace tunesmith {

class TimingArrays {
 public:
  /// Reduces the problem's rows until its arrays take at most cap_bytes and half of the device's memory, allocates them and
  /// fills the inputs with random values. Throws Error(out_of_memory) naming the size when that cannot be done.
  TimingArrays(const ParsedProblemPtr& problem, Device& device, std::int64_t cap_bytes, std::uint64_t seed);

  /// The measured problem: the given one, with fewer rows if it was too large.
  const ParsedProblem& problem() const noexcept { return *problem_; }
  /// In the order of ParsedProblem::arrays().
  std::span<void* const> addresses() const noexcept { return addresses_; }

 private:
  void allocate(Device& device);
  void fill(Device& device, std::uint64_t seed);

  ParsedProblemPtr problem_;
  std::vector<std::size_t> owners_;  ///< storage_owners()
  std::vector<DeviceMemory> memory_;
  std::vector<void*> addresses_;
};

}  // namespace tunesmith
