#pragma once
// The verification problem's arrays, kept on host and device while one configuration after the other is tried on them.

#include <vector>

#include "tuner/array_layout.h"
#include "tuner/device_memory.h"
#include "tuner/verify.h"

namespace tunesmith {

/// Not thread-safe. Problem and device must outlive it.
class Verifier {
 public:
  /// Fills the inputs: edge-case rows first, random ones after them. Throws Error(out_of_memory).
  Verifier(const ParsedProblem& verification_problem, Device& device, std::uint64_t seed, const ChangeInputs& change = {});

  /// See verify(). `executable` must have been built for the verification problem. Throws Error(device_failed) when it
  /// cannot be launched or faults.
  CheckResult check(const Executable& executable);

 private:
  /// Host image of an array with its surroundings: canary, slack up to the promised alignment, elements, canary.
  using Image = std::vector<std::byte>;

  struct Guarded {
    ArrayInfo info;
    std::vector<ElementRun> runs;
    std::size_t offset = 0;  ///< of the array in its image
    Image input;             ///< with the elements of an input filled in
    DeviceMemory memory;
    Image sent, first, second;  ///< before a run, after the first, after the second

    std::size_t extent() const { return static_cast<std::size_t>(info.extent_bytes()); }
    std::byte* elements(Image& image) const { return image.data() + offset; }
  };

  void complete_inputs(const Executable& executable);
  void run(const Executable& executable, std::span<void* const> addresses, std::byte poison, Image Guarded::*result);
  std::string stray_write(const Guarded& array, const Image& result, bool is_output) const;
  std::string difference(const Guarded& array) const;

  const ParsedProblem& problem_;
  Device& device_;
  std::vector<Guarded> arrays_;
  bool completed_ = false;           ///< inputs that depend on user functions are final
  std::vector<std::size_t> owners_;  ///< storage_owners() of the executable under test
};

}  // namespace tunesmith
