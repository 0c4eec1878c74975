#pragma once
// From an exception to what a person reads and a script tests.

#include <string>

#include "tunesmith/error.h"

namespace tunesmith::cli {

inline constexpr int exit_done = 0;
inline constexpr int exit_failed = 1;
inline constexpr int exit_usage = 2;

int exit_code(ErrorCode code) noexcept;

/// "tunesmith: error: ..." on stderr; for a failed compilation the log and the path of the dumped source on further lines.
/// Returns the exit code.
int report(const Error& error);

/// "tunesmith: warning: ..." on stderr.
void warn(const std::string& text);

}  // namespace tunesmith::cli
