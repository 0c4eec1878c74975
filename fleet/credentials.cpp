#include "fleet/credentials.h"

namespace tunesmith::fleet {

Credentials read_credentials(const RemoteUrl& url) {
  Credentials credentials;
  if (!url.trust.empty()) credentials.trust.public_keys = read_trust(url.trust);
  if (!url.sign.empty()) {
    credentials.signing = SigningKey::read(url.sign);
    credentials.trust.public_keys.push_back(credentials.signing->public_key());
  }
  return credentials;
}

}  // namespace tunesmith::fleet
