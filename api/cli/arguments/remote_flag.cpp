#include "api/cli/arguments/remote_flag.h"

#include <CLI/CLI.hpp>

#include "fleet/remote.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {

void RemoteFlag::add_to(CLI::App& command) {
  command.add_option("--remote", text_, "cache that several hosts share (default: $TUNESMITH_REMOTE)")->type_name("URL");
}

std::string RemoteFlag::text() const {
  std::string text = text_ ? *text_ : EngineOptions::from_environment().remote;
  if (text.empty())
    throw Error(ErrorCode::invalid_argument, "no remote cache is named; expected --remote URL or TUNESMITH_REMOTE");
  return text;
}

fleet::RemoteUrl RemoteFlag::url() const {
  fleet::RemoteUrl url = fleet::parse_remote_url(text());
  if (!fleet::is_built())
    throw Error(ErrorCode::unsupported,
                "this build of Tunesmith has no remote cache; it was built without hiredis, OpenSSL or zlib");
  return url;
}

}  // namespace tunesmith::cli
