#pragma once
// Absolute points in time on the monotonic clock. Every wait of the remote cache ends at one.

#include <algorithm>
#include <chrono>
#include <limits>

namespace tunesmith::fleet {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;
using Milliseconds = std::chrono::milliseconds;

inline Deadline after(Milliseconds time) { return Clock::now() + time; }

/// Returns the milliseconds until a deadline for poll(): rounded up, 0 if it has passed.
inline int poll_ms(Deadline deadline) {
  const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

}  // namespace tunesmith::fleet
