#pragma once
// Workspaces that plans share, so that memory depends on the largest plans and the number of streams, not on the number of
// plans.

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "core/launch.h"
#include "jit/workspaces.h"

namespace tunesmith {

/// Thread-safe. Launches on a stream run one after the other, so plans whose workspaces need not keep their contents use the
/// same memory. Sizes are rounded up to powers of two and their halves between, and pieces are never released before the
/// pool and its users are destroyed: a captured graph may contain their addresses. All sizes of a stream together are at
/// most three and a half times the largest.
class WorkspacePool {
 public:
  /// `device` must outlive the pool and every workspace from it.
  explicit WorkspacePool(Device& device) : device_(device) {}

  /// Returns the workspaces for this use with at least `bytes` bytes for each stream; new ones for WorkspaceUse::own. Throws
  /// Error(out_of_memory).
  std::shared_ptr<Workspaces> get(WorkspaceUse use, std::size_t bytes);

 private:
  Device& device_;
  std::mutex mutex_;
  std::map<std::pair<WorkspaceUse, std::size_t>, std::shared_ptr<Workspaces>> shared_;
};

}  // namespace tunesmith
