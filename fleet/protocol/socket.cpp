#include "fleet/protocol/socket.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "fleet/protocol/error.h"

namespace tunesmith::fleet {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

Socket::~Socket() { close(descriptor_); }

std::unique_ptr<Socket> Socket::connect(const SocketAddress& address, Deadline deadline) {
  const int descriptor = socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) throw RemoteError(Failure::connect, "no socket: " + reason(errno));
  std::unique_ptr<Socket> result(new Socket(descriptor));
  if (address.family() != AF_UNIX) {
    const int on = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  }
  if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0) return result;
  // A Unix socket whose queue of connections is full answers EAGAIN.
  if (errno != EINPROGRESS) throw RemoteError(Failure::connect, "no connection: " + reason(errno));
  result->wait(POLLOUT, deadline);
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) throw RemoteError(Failure::connect, "no connection: " + reason(error));
  return result;
}

void Socket::wait(short events, Deadline deadline) const {
  while (true) {
    pollfd entry{descriptor_, events, 0};
    const int ready = poll(&entry, 1, poll_ms(deadline));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) throw RemoteError(Failure::connect, "poll: " + reason(errno));
    if (Clock::now() >= deadline) throw RemoteError(Failure::timeout, "no answer in time");
  }
}

void Socket::write(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait(POLLOUT, deadline);
    } else if (errno != EINTR) {
      throw RemoteError(Failure::closed, "the connection is closed: " + reason(errno));
    }
  }
}

std::size_t Socket::read(char* buffer, std::size_t size, Deadline deadline) {
  while (true) {
    const ssize_t received = recv(descriptor_, buffer, size, 0);
    if (received > 0) {
      // Bytes that trickle in never let poll() time out.
      if (Clock::now() >= deadline) throw RemoteError(Failure::timeout, "the answer did not arrive in time");
      return static_cast<std::size_t>(received);
    }
    if (received == 0) throw RemoteError(Failure::closed, "the server closed the connection");
    if (errno == EAGAIN || errno == EWOULDBLOCK)
      wait(POLLIN, deadline);
    else if (errno != EINTR)
      throw RemoteError(Failure::closed, "the connection is closed: " + reason(errno));
  }
}

}  // namespace tunesmith::fleet
