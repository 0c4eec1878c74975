#include "fleet/resolve.h"

#include <netdb.h>
#include <sys/un.h>

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "fleet/protocol/error.h"

namespace tunesmith::fleet {
namespace {

struct Answer {
  std::mutex mutex;
  std::condition_variable arrived;
  bool done = false;
  int code = 0;
  std::vector<SocketAddress> addresses;
};

int look_up(const std::string& host, int port, int flags, std::vector<SocketAddress>& addresses) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (code != 0) return code;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
    addresses.push_back(address);
  }
  freeaddrinfo(list);
  return 0;
}

SocketAddress unix_address(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof name.sun_path)
    throw RemoteError(Failure::resolve, "socket path '" + path + "' is too long; allowed: at most " +
                                            std::to_string(sizeof name.sun_path - 1) + " bytes");
  std::memcpy(name.sun_path, path.c_str(), path.size());
  SocketAddress address;
  std::memcpy(&address.storage, &name, sizeof name);
  address.size = sizeof name;
  return address;
}

}  // namespace

std::vector<SocketAddress> resolve(const RemoteUrl& url, Deadline deadline) {
  if (url.transport == RemoteUrl::Transport::unix_socket) return {unix_address(url.socket.string())};
  std::vector<SocketAddress> literal;
  if (look_up(url.host, url.port, AI_NUMERICHOST, literal) == 0) return literal;

  const auto answer = std::make_shared<Answer>();
  std::thread([answer, host = url.host, port = url.port] {
    std::vector<SocketAddress> addresses;
    const int code = look_up(host, port, 0, addresses);
    const std::lock_guard lock(answer->mutex);
    answer->code = code;
    answer->addresses = std::move(addresses);
    answer->done = true;
    answer->arrived.notify_all();
  }).detach();
  std::unique_lock lock(answer->mutex);
  if (!answer->arrived.wait_until(lock, deadline, [&] { return answer->done; }))
    throw RemoteError(Failure::timeout, "resolving '" + url.host + "' took too long");
  if (answer->code != 0)
    throw RemoteError(Failure::resolve, "'" + url.host + "' cannot be resolved: " + gai_strerror(answer->code));
  return std::move(answer->addresses);
}

}  // namespace tunesmith::fleet
