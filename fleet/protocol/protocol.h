#pragma once
// The Redis protocol, by hiredis: commands to bytes, bytes to replies.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "fleet/protocol/reply.h"

namespace tunesmith::fleet {

std::string encode(std::span<const std::string> command);

/// Parses the bytes of replies. A server that lies cannot make it allocate more than it sends: strings grow with the bytes
/// that arrive, and arrays have at most max_elements elements.
class ReplyParser {
 public:
  static constexpr std::size_t max_elements = 1 << 18;

  ReplyParser();
  ~ReplyParser();
  ReplyParser(const ReplyParser&) = delete;
  ReplyParser& operator=(const ReplyParser&) = delete;

  void feed(std::string_view bytes);
  /// Returns the next complete reply. Throws RemoteError(protocol).
  std::optional<Reply> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tunesmith::fleet
