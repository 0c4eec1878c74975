#include "jit/workspace_pool.h"

#include <algorithm>

#include "core/half_octave.h"

namespace tunesmith {

std::shared_ptr<Workspaces> WorkspacePool::get(WorkspaceUse use, std::size_t bytes) {
  if (use == WorkspaceUse::own) return std::make_shared<Workspaces>(device_, bytes);
  constexpr std::int64_t least = std::int64_t{64} << 10;
  const auto size = static_cast<std::size_t>(half_octave(std::max(static_cast<std::int64_t>(bytes), least)));
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Workspaces>& workspaces = shared_[{use, size}];
  if (workspaces == nullptr) workspaces = std::make_shared<Workspaces>(device_, size);
  return workspaces;
}

}  // namespace tunesmith
