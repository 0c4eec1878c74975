#pragma once
// A connection that carries bytes: a non-blocking socket, with TLS for rediss://. Every call ends at its deadline.

#include <cstddef>
#include <memory>
#include <string_view>

#include "fleet/protocol/deadline.h"
#include "fleet/remote_url.h"

namespace tunesmith::fleet {

/// For one thread at a time. All calls throw RemoteError; the stream is useless after that.
class Stream {
 public:
  /// Connects to the first address that answers; with TLS, checks the certificate and the host name.
  static std::unique_ptr<Stream> open(const RemoteUrl& url, Deadline deadline);
  virtual ~Stream() = default;

  virtual void write(std::string_view bytes, Deadline deadline) = 0;
  /// Waits for at least one byte; returns the number of bytes read.
  virtual std::size_t read(char* buffer, std::size_t size, Deadline deadline) = 0;
};

}  // namespace tunesmith::fleet
