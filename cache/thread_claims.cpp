#include "cache/thread_claims.h"

#include <unistd.h>

namespace tunesmith {

std::shared_ptr<const void> ThreadClaims::take(std::string_view key, std::chrono::milliseconds wait) {
  std::unique_lock lock(keys_->mutex);
  if (!keys_->released.wait_for(lock, wait, [&] { return !keys_->claimed.contains(key); })) return nullptr;
  const auto claimed = keys_->claimed.emplace(key).first;
  return {&*claimed, [keys = keys_, claimed, process = getpid()](const void*) {
            if (process != getpid()) return;  // a forked child: its parent's threads, maybe with the lock, are not there
            const std::lock_guard releasing(keys->mutex);
            keys->claimed.erase(claimed);
            keys->released.notify_all();
          }};
}

}  // namespace tunesmith
