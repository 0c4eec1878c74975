#include "tests/support/jumping_clock.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

namespace tunesmith {
namespace {

std::atomic<std::int64_t> moved_s{0};

}  // namespace

void move_clock(std::int64_t seconds) { moved_s = seconds; }

}  // namespace tunesmith

// These replace the functions of the C library, also for the C++ library's clocks.
extern "C" int clock_gettime(clockid_t clock, timespec* now) {
  const long result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += static_cast<time_t>(tunesmith::moved_s);
  return static_cast<int>(result);
}

extern "C" time_t time(time_t* result) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != nullptr) *result = now.tv_sec;
  return now.tv_sec;
}
