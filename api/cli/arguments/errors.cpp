#include "api/cli/arguments/errors.h"

#include <cstdio>

#include "api/cli/tuning/interrupt.h"
#include "core/utf8.h"

namespace tunesmith::cli {

int exit_code(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument: return exit_usage;
    case ErrorCode::cancelled: return exit_interrupted;
    default: return exit_failed;
  }
}

int report(const Error& error) {
  std::fprintf(stderr, "tunesmith: error: %s\n", printable(error.what()).c_str());
  if (!error.log().empty()) {
    std::fprintf(stderr, "%s%s", error.log().c_str(), error.log().back() == '\n' ? "" : "\n");
    if (!error.options().empty()) std::fprintf(stderr, "options: %s\n", error.options().c_str());
    if (!error.source_path().empty()) std::fprintf(stderr, "source: %s\n", error.source_path().c_str());
  }
  return exit_code(error.code());
}

void warn(const std::string& text) { std::fprintf(stderr, "tunesmith: warning: %s\n", printable(text).c_str()); }

}  // namespace tunesmith::cli
