#pragma once
// Ctrl-C: the first one stops running work at a safe place, the second one kills.

#include <atomic>

namespace tunesmith::cli {

/// Exit code of a run that SIGINT stopped, as in shells.
inline constexpr int exit_interrupted = 130;

/// Installs the signal handlers. Call it from the main thread, before long work.
void catch_interrupts();
/// Becomes true on the first SIGINT or SIGTERM after catch_interrupts(). One flag for the whole process, because signals
/// are sent to processes.
const std::atomic<bool>& interrupted() noexcept;

}  // namespace tunesmith::cli
