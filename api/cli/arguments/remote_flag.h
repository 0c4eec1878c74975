#pragma once
// --remote: the cache that several hosts share.

#include <optional>
#include <string>

#include "api/cli/arguments/cli11.h"
#include "fleet/remote_url.h"
#include "tunesmith/engine.h"

namespace tunesmith::cli {

class RemoteFlag {
 public:
  void add_to(CLI::App& command);
  /// Returns the flag's text, else the environment's. Throws Error(invalid_argument) if there is neither.
  std::string text() const;
  /// Throws Error(invalid_argument) for a malformed URL and Error(unsupported) for a build without the remote cache.
  fleet::RemoteUrl url() const;

 private:
  std::optional<std::string> text_;
};

}  // namespace tunesmith::cli
