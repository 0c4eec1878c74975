#pragma once
// The keys that a URL names.

#include <optional>

#include "fleet/protocol/value.h"
#include "fleet/remote_url.h"
#include "fleet/signing.h"

namespace tunesmith::fleet {

struct Credentials {
  Trust trust;
  std::optional<SigningKey> signing;

  const SigningKey* signing_key() const { return signing ? &*signing : nullptr; }
};

/// Reads the key files of the URL. The public key of `sign` is trusted. Throws Error(io).
Credentials read_credentials(const RemoteUrl& url);

}  // namespace tunesmith::fleet
