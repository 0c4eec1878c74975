#pragma once
// A loaded binary with its launch plan. Plan handles launch it and the tuner times it.

#include <memory>
#include <span>
#include <vector>

#include "core/launch.h"
#include "jit/device.h"
#include "jit/tensor_maps.h"
#include "jit/workspace_pool.h"

namespace tunesmith {

class Executable {
 public:
  /// Prepares every kernel and tensor map of the plan and its workspace, from `pool` unless that is null. `device` must
  /// outlive this object. Throws the errors of Device::prepare and TensorMaps, Error(unsupported) for too many bytes of
  /// parameters, and Error(out_of_memory).
  Executable(Device& device, std::shared_ptr<Module> module, LaunchPlan plan, WorkspacePool* pool = nullptr);
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  /// Enqueues every kernel. `arrays` are in the order of plan().pointers. Throws Error(invalid_argument) for an address that
  /// is null, misaligned, partly overlaps another, or equals another if the plan is not in place. Thread-safe; takes no lock
  /// and does not allocate, with two exceptions: a plan with a workspace that is used on more than Workspaces::prepared
  /// streams allocates another piece under a lock, which a stream capture forbids; and a plan with a workspace and several
  /// kernels takes the stream's lock, because other threads must not launch between them.
  void enqueue(std::span<void* const> arrays, Stream stream) const;

  /// Overwrites the stream's workspace with `byte`, except for what its use promises to kernels (WorkspaceUse). A kernel
  /// that reads what no kernel has written then gives another result. Not during a launch.
  void poison_workspace(Stream stream, unsigned char byte) const;

  const LaunchPlan& plan() const noexcept { return plan_; }
  const std::shared_ptr<Module>& module() const noexcept { return module_; }

 private:
  void check(std::span<void* const> arrays) const;

  Device& device_;
  std::shared_ptr<Module> module_;
  LaunchPlan plan_;
  TensorMaps tensor_maps_;
  std::vector<std::unique_ptr<PreparedKernel>> kernels_;
  std::shared_ptr<Workspaces> workspaces_;
  bool in_order_ = false;  ///< threads that launch on one stream must not use its workspace at once
};

}  // namespace tunesmith
