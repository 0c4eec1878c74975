#pragma once
// Exit codes, and errors and warnings on stderr.

#include <string>

#include "tunesmith/error.h"

namespace tunesmith::cli {

inline constexpr int exit_done = 0;
inline constexpr int exit_failed = 1;
inline constexpr int exit_usage = 2;

int exit_code(ErrorCode code) noexcept;

/// Prints "tunesmith: error: ..." to stderr and returns the exit code. A failed compilation adds lines with the log and the
/// path of the dumped source.
int report(const Error& error);

/// Prints "tunesmith: warning: ..." to stderr.
void warn(const std::string& text);

}  // namespace tunesmith::cli
