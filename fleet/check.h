#pragma once
// Checks everything that a remote cache needs, step by step, and reports what is wrong.

#include <string>
#include <vector>

namespace tunesmith::fleet {

struct Finding {
  enum class Verdict : std::uint8_t { good, warning, failed };
  std::string what;  ///< "connection"
  Verdict verdict = Verdict::good;
  std::string text;
};

/// Checks URL, keys, connection, server, permissions and generation. Never throws; a step that fails ends the list.
std::vector<Finding> check_remote(const std::string& url);

}  // namespace tunesmith::fleet
