#pragma once
// A wall clock that a test moves. The program that links jumping_clock.cpp has it in place of the system's; the steady clock
// is not touched.

#include <cstdint>

namespace tunesmith {

/// Moves the wall clock by that many seconds from the true time.
void move_clock(std::int64_t seconds);

}  // namespace tunesmith
