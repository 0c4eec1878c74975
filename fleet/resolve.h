#pragma once
// Host names to addresses, within a deadline.

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "fleet/protocol/deadline.h"
#include "fleet/remote_url.h"

namespace tunesmith::fleet {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  int family() const { return storage.ss_family; }
};

/// Returns the addresses of the server. Throws RemoteError(resolve | timeout). The system's resolver has no time limit, so a
/// name is resolved in a thread of its own, which may outlive the call; literal addresses and sockets need none.
std::vector<SocketAddress> resolve(const RemoteUrl& url, Deadline deadline);

}  // namespace tunesmith::fleet
