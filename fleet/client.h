#pragma once
// A connection to the server: commands and their replies.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/protocol/deadline.h"
#include "fleet/protocol/protocol.h"
#include "fleet/protocol/stream.h"
#include "fleet/remote_url.h"

namespace tunesmith::fleet {

using Command = std::vector<std::string>;

/// For one thread at a time. All calls throw RemoteError and end at their deadline. After an error other than `rejected`,
/// the connection is in an unknown state; drop it.
class Client {
 public:
  /// Bytes of all replies to one call. The largest value has 8 MiB.
  static constexpr std::size_t max_reply_bytes = std::size_t{256} << 20;

  /// Connects, logs in and selects the database.
  static std::unique_ptr<Client> open(const RemoteUrl& url, Deadline deadline);

  /// Sends a command and waits for the reply. Throws RemoteError(rejected) for an error reply.
  Reply call(const Command& command, Deadline deadline);
  /// Sends the commands together and returns their replies in order, error replies included.
  std::vector<Reply> call_all(const std::vector<Command>& commands, Deadline deadline);
  /// Runs a Lua script on the server.
  Reply evaluate(const std::string& script, const std::vector<std::string>& keys, const std::vector<std::string>& arguments,
                 Deadline deadline);

 private:
  explicit Client(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}

  std::unique_ptr<Stream> stream_;
  ReplyParser parser_;
};

/// Throws RemoteError(rejected) if the reply is an error.
const Reply& accepted(const Reply& reply);
const Reply& accepted(Reply&& reply) = delete;

}  // namespace tunesmith::fleet
