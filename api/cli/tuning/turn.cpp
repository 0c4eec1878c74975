#include "api/cli/tuning/turn.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tunesmith/error.h"

namespace tunesmith::cli {

Turn::Turn() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw Error(ErrorCode::io, "cannot start a tuning process: pipe: ", std::strerror(errno));
  read_end_ = ends[0];
  write_end_ = ends[1];
}

Turn::~Turn() {
  give();
  close(read_end_);
}

void Turn::give() noexcept {
  if (given_.exchange(true)) return;
  // A parent that was killed gives no byte.
  while (write(write_end_, "g", 1) < 0 && errno == EINTR) {
  }
  close(write_end_);
}

bool wait_for_turn(int child_end, const std::atomic<bool>& cancel) {
  constexpr int look_every_ms = 20;
  pollfd turn{.fd = child_end, .events = POLLIN, .revents = 0};
  while (!cancel && poll(&turn, 1, look_every_ms) <= 0) {
  }
  char given = 0;
  return !cancel && read(child_end, &given, 1) == 1;
}

}  // namespace tunesmith::cli
