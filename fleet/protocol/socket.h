#pragma once
// A non-blocking TCP or Unix socket as a stream.

#include "fleet/protocol/stream.h"
#include "fleet/resolve.h"

namespace tunesmith::fleet {

class Socket final : public Stream {
 public:
  /// Connects, with TCP_NODELAY: with Nagle's algorithm, a request in two TLS records waits 40 ms for the server's delayed
  /// acknowledgement.
  static std::unique_ptr<Socket> connect(const SocketAddress& address, Deadline deadline);
  ~Socket() override;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void write(std::string_view bytes, Deadline deadline) override;
  std::size_t read(char* buffer, std::size_t size, Deadline deadline) override;

 private:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  void wait(short events, Deadline deadline) const;

  int descriptor_;
};

}  // namespace tunesmith::fleet
