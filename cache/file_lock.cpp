#include "cache/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "cache/connection.h"

namespace tunesmith {

FileLock::~FileLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

void FileLock::lock(Kind kind, int timeout_ms) {
  using std::chrono::milliseconds, std::chrono::steady_clock;
  if (descriptor_ < 0) {
    descriptor_ = open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor_ < 0) {
      const int why = errno;
      descriptor_ = open(file_.c_str(), O_RDONLY | O_CLOEXEC);
      if (descriptor_ < 0) {
        if (kind == Kind::shared) return;
        throw SqliteError(SQLITE_CANTOPEN,
                          "cannot open the lock file " + file_.string() + ": " + std::generic_category().message(why));
      }
    }
  }
  const auto deadline = steady_clock::now() + milliseconds(timeout_ms);
  const int operation = (kind == Kind::shared ? LOCK_SH : LOCK_EX) | LOCK_NB;
  for (milliseconds pause{1};; pause = std::min(pause * 2, milliseconds{25})) {
    if (flock(descriptor_, operation) == 0) {
      locked_ = true;
      return;
    }
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return;  // this file system does not support locks
    if (steady_clock::now() >= deadline) {
      throw SqliteError(SQLITE_BUSY, "another process has locked " + file_.string());
    }
    std::this_thread::sleep_for(pause);
  }
}

void FileLock::unlock() {
  if (locked_) flock(descriptor_, LOCK_UN);
  locked_ = false;
}

}  // namespace tunesmith
