#include "jit/cuda/measuring_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "core/temporary_directory.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

// Used if no lock file can be made. One per process, because several devices and engines may share a GPU.
std::mutex process_lock;

int open_lock_file(const std::filesystem::path& path) {
  // flock works on a file opened for reading. O_CREAT fails for another user's file in a sticky folder.
  constexpr int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC;
  for (int attempt = 0; attempt < 3; ++attempt) {
    int file = open(path.c_str(), flags);
    if (file >= 0 || errno != ENOENT) return file;
    file = open(path.c_str(), flags | O_CREAT | O_EXCL, 0644);
    if (file >= 0) {
      fchmod(file, 0644);  // readable by every user, regardless of the umask
      return file;
    }
    if (errno != EEXIST) return -1;
  }
  return -1;
}

}  // namespace

MeasuringLock::MeasuringLock(const std::filesystem::path& folder, const std::string& uuid,
                             std::chrono::milliseconds timeout) {
  const std::filesystem::path place = folder.empty() ? temporary_directory() : folder;
  file_ = open_lock_file(place / ("tunesmith-measuring-" + uuid + ".lock"));
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (file_ >= 0) {
    if (flock(file_, LOCK_EX | LOCK_NB) == 0) return;
    if (errno != EINTR && errno != EWOULDBLOCK) break;
    if (std::chrono::steady_clock::now() >= until) {
      close(file_);
      throw Error(ErrorCode::cancelled, "another process has held the measuring lock of GPU ", uuid, " for more than ",
                  std::chrono::duration<double>(timeout).count(), " s");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (file_ >= 0) close(file_);
  file_ = -1;
  in_process_ = std::unique_lock(process_lock);
}

MeasuringLock::~MeasuringLock() {
  if (file_ >= 0) close(file_);
}

}  // namespace tunesmith
