#include "fleet/remote.h"

#include "fleet/remote_cache.h"
#include "tunesmith/error.h"

namespace tunesmith::fleet {

bool is_built() noexcept { return true; }

std::shared_ptr<RemoteStore> open_remote(const RemoteOptions& options) {
  RemoteUrl url = parse_remote_url(options.url);
  try {
    Credentials credentials = read_credentials(url);
    return std::make_shared<RemoteCache>(std::move(url), std::move(credentials), options);
  } catch (const Error& error) {
    if (options.warn) options.warn(std::string("the remote cache is not used: ") + error.what());
    return nullptr;
  }
}

}  // namespace tunesmith::fleet
