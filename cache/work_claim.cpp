#include "cache/work_claim.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>

#include "cache/file_system.h"
#include "core/hash.h"

namespace tunesmith {
namespace {

struct flock lock_on(short type, off_t byte) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

// Far below the largest offset, so that every file system accepts it.
off_t byte_of(std::string_view key) { return static_cast<off_t>(std::stoull(hash_hex(key).substr(0, 15), nullptr, 16)); }

}  // namespace

WorkClaim::~WorkClaim() {
  if (descriptor_ < 0) return;
  // If this process has forked, closing alone would leave the lock to its children.
  if (owner_ == getpid()) {
    struct flock all = lock_on(F_UNLCK, 0);
    all.l_len = 0;
    fcntl(descriptor_, F_OFD_SETLK, &all);
  }
  close(descriptor_);
}

std::optional<WorkClaim> WorkClaim::take(const std::filesystem::path& lock_file, std::string_view key,
                                         std::chrono::milliseconds wait) {
  using std::chrono::milliseconds, std::chrono::steady_clock;
  create_private_folder(lock_file.parent_path());
  const int descriptor = open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return WorkClaim();
  WorkClaim claim(descriptor);
  const auto deadline = steady_clock::now() + wait;
  struct flock lock = lock_on(F_WRLCK, byte_of(key));
  for (milliseconds pause{1};; pause = std::min(pause * 2, milliseconds{25})) {
    if (fcntl(descriptor, F_OFD_SETLK, &lock) == 0) return claim;
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EACCES) return WorkClaim();
    if (steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace tunesmith
