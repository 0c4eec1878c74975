#include "cache/publish.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include "tunesmith/error.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

void force_to_disk(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

// Fails if `to` exists by now.
bool rename_to_new_name(const fs::path& from, const fs::path& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  return link(from.c_str(), to.c_str()) == 0 && unlink(from.c_str()) == 0;
}

}  // namespace

fs::path unfinished_name(const fs::path& target) {
  static std::atomic<unsigned> counter{0};
  fs::path name = target;
  return name += ".unfinished-" + std::to_string(getpid()) + "-" + std::to_string(++counter);
}

void publish(const fs::path& file, const fs::path& target) {
  force_to_disk(file);
  if (!rename_to_new_name(file, target)) {
    throw Error(ErrorCode::cache_failed, "cannot create '", target.string(), "': ", std::generic_category().message(errno));
  }
  force_to_disk(target.parent_path());
}

}  // namespace tunesmith
