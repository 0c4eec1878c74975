// A build without hiredis, OpenSSL and zlib: what needs them says so.

#include "fleet/remote.h"
#include "fleet/remote_url.h"

namespace tunesmith::fleet {

bool is_built() noexcept { return false; }

std::shared_ptr<RemoteStore> open_remote(const RemoteOptions& options) {
  parse_remote_url(options.url);  // a mistake is reported by every build
  if (options.warn)
    options.warn(
        "the remote cache is not used: this build of Tunesmith has none; it was built without hiredis, OpenSSL or zlib");
  return nullptr;
}

}  // namespace tunesmith::fleet
