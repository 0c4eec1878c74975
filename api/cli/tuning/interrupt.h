#pragma once
// Ctrl-C: the first one asks running work to stop at a safe place, the second one kills.

#include <atomic>

namespace tunesmith::cli {

/// Exit code of a run that was stopped by SIGINT, as shells have it.
inline constexpr int exit_interrupted = 130;

/// Call before long work. Only from the main thread.
void catch_interrupts();
/// Becomes true on the first SIGINT or SIGTERM after catch_interrupts(). The same flag for the whole process: signals have
/// no other address.
const std::atomic<bool>& interrupted() noexcept;

}  // namespace tunesmith::cli
