#pragma once
// A loaded binary with its launch plan: arrays in, kernels enqueued. What a plan handle launches and the tuner times.

#include <memory>
#include <span>
#include <vector>

#include "core/launch.h"
#include "jit/device.h"
#include "jit/tensor_maps.h"
#include "jit/workspaces.h"

namespace tunesmith {

class Executable {
 public:
  /// Prepares every kernel and tensor map of the plan and allocates its workspace. `device` must outlive this object. Throws
  /// what Device::prepare and TensorMaps do, and Error(unsupported) for too many parameters.
  Executable(Device& device, std::shared_ptr<Module> module, LaunchPlan plan);
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  /// Checks the addresses (Error(invalid_argument): null, misaligned, partly overlapping, or the same when the plan is not
  /// in place) and enqueues every kernel. `arrays` in the order of plan().pointers. Thread-safe. No allocation,
  /// no lock; a plan with a workspace has one for each stream, and makes more, under a lock and not during a capture, when
  /// it is used on more streams than it was prepared for (Workspaces::prepared).
  void enqueue(std::span<void* const> arrays, Stream stream) const;

  const LaunchPlan& plan() const noexcept { return plan_; }
  const std::shared_ptr<Module>& module() const noexcept { return module_; }

 private:
  void check(std::span<void* const> arrays) const;

  Device& device_;
  std::shared_ptr<Module> module_;
  LaunchPlan plan_;
  TensorMaps tensor_maps_;
  std::vector<std::unique_ptr<PreparedKernel>> kernels_;
  std::unique_ptr<Workspaces> workspaces_;
};

}  // namespace tunesmith
