#pragma once
// The right of one host to tune a key: a value on the server that expires unless its owner renews it. A lease that is lost
// costs double work, never a wrong result.

#include <string>

#include "cache/remote_store.h"
#include "fleet/client.h"
#include "fleet/writer.h"

namespace tunesmith::fleet {

inline constexpr Milliseconds lease_time{30'000}, lease_renewal{10'000};

/// Returns 128 random bits as hex digits.
std::string new_token();

/// Takes the lease unless another host has it. Throws RemoteError.
bool take_lease(Client& client, const std::string& name, const std::string& token, Deadline deadline);
/// Renews the lease if it is still this token's; returns whether it is.
bool renew_lease(Client& client, const std::string& name, const std::string& token, Deadline deadline);
/// Releases the lease if it is still this token's.
void release_lease(Client& client, const std::string& name, const std::string& token, Deadline deadline);

/// Renews a lease in the background until the object ends, for at most `limit_s` seconds, then releases it.
class RenewedLease final : public RemoteLease {
 public:
  RenewedLease(Writer& writer, std::string name, std::string token, double limit_s);
  ~RenewedLease() override;

 private:
  Writer& writer_;
  const std::string name_, token_;
  std::uint64_t renewal_;
};

}  // namespace tunesmith::fleet
