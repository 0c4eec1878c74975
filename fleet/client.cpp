#include "fleet/client.h"

#include <array>
#include <fstream>

#include "fleet/protocol/error.h"
#include "tunesmith/error.h"

namespace tunesmith::fleet {
namespace {

std::string first_line(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  if (!std::getline(stream, line) || line.empty())
    throw RemoteError(Failure::auth, "password_file '" + file.string() + "' cannot be read or is empty");
  return line;
}

}  // namespace

const Reply& accepted(const Reply& reply) {
  if (reply.is_error()) throw RemoteError(Failure::rejected, "the server answered: " + reply.text);
  return reply;
}

std::unique_ptr<Client> Client::open(const RemoteUrl& url, Deadline deadline) {
  std::unique_ptr<Client> client(new Client(Stream::open(url, deadline)));
  std::vector<Command> greeting;
  if (!url.password_file.empty()) {
    const std::string password = first_line(url.password_file);
    greeting.push_back(url.user.empty() ? Command{"AUTH", password} : Command{"AUTH", url.user, password});
  }
  if (url.database != 0) greeting.push_back({"SELECT", std::to_string(url.database)});
  greeting.push_back({"PING"});
  for (const Reply& reply : client->call_all(greeting, deadline)) {
    if (!reply.is_error()) continue;
    const bool is_login = reply.text.starts_with("WRONGPASS") || reply.text.starts_with("NOAUTH");
    throw RemoteError(is_login ? Failure::auth : Failure::rejected, "the server answered: " + reply.text);
  }
  return client;
}

Reply Client::call(const Command& command, Deadline deadline) {
  Reply reply = std::move(call_all({command}, deadline).front());
  accepted(reply);
  return reply;
}

std::vector<Reply> Client::call_all(const std::vector<Command>& commands, Deadline deadline) {
  std::string request;
  for (const Command& command : commands) request += encode(command);
  stream_->write(request, deadline);

  std::vector<Reply> replies;
  std::array<char, 65536> buffer;
  std::size_t received = 0;
  while (replies.size() < commands.size()) {
    if (std::optional<Reply> reply = parser_.next()) {
      replies.push_back(std::move(*reply));
      continue;
    }
    const std::size_t size = stream_->read(buffer.data(), buffer.size(), deadline);
    received += size;
    if (received > max_reply_bytes)
      throw RemoteError(Failure::protocol, "a reply has more than " + std::to_string(max_reply_bytes) + " bytes");
    parser_.feed({buffer.data(), size});
  }
  return replies;
}

Reply Client::evaluate(const std::string& script, const std::vector<std::string>& keys,
                       const std::vector<std::string>& arguments, Deadline deadline) {
  Command command{"EVAL", script, std::to_string(keys.size())};
  command.insert(command.end(), keys.begin(), keys.end());
  command.insert(command.end(), arguments.begin(), arguments.end());
  return call(command, deadline);
}

}  // namespace tunesmith::fleet
