#include "tests/fleet/faulty_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>

namespace tunesmith::fleet {
namespace {

/// Reads what has arrived; returns false when the peer is gone or the test is over.
bool await_request(int connection, const std::atomic<bool>& stopped) {
  std::array<char, 65536> buffer;
  while (!stopped) {
    pollfd entry{connection, POLLIN, 0};
    if (poll(&entry, 1, 20) <= 0) continue;
    return recv(connection, buffer.data(), buffer.size(), 0) > 0;
  }
  return false;
}

void send_all(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

}  // namespace

FaultyServer::FaultyServer(const std::filesystem::path& socket, Fault fault, bool answers_login)
    : fault_(std::move(fault)), answers_login_(answers_login), listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::strncpy(name.sun_path, socket.c_str(), sizeof name.sun_path - 1);
  bind(listener_, reinterpret_cast<const sockaddr*>(&name), sizeof name);
  listen(listener_, 64);
  acceptor_ = std::thread([this] { serve(); });
}

FaultyServer::~FaultyServer() {
  stopped_ = true;
  acceptor_.join();
  for (std::thread& thread : threads_) thread.join();
  close(listener_);
}

void FaultyServer::serve() {
  while (!stopped_) {
    pollfd entry{listener_, POLLIN, 0};
    if (poll(&entry, 1, 20) <= 0) continue;
    const int connection = accept(listener_, nullptr, nullptr);
    ++connections_;
    threads_.emplace_back([this, connection] {
      if (answers_login_ && await_request(connection, stopped_)) send_all(connection, "+PONG\r\n");
      if (await_request(connection, stopped_)) fault_(connection, stopped_);
      close(connection);
    });
  }
}

FaultyServer::Fault hang() { return say(""); }

FaultyServer::Fault say(const std::string& bytes) {
  return [bytes](int connection, const std::atomic<bool>& stopped) {
    do send_all(connection, bytes);
    while (await_request(connection, stopped));
  };
}

FaultyServer::Fault say_and_close(const std::string& bytes) {
  return [bytes](int connection, const std::atomic<bool>&) { send_all(connection, bytes); };
}

FaultyServer::Fault trickle(const std::string& bytes) {
  return [bytes](int connection, const std::atomic<bool>& stopped) {
    for (std::size_t i = 0; i < bytes.size() && !stopped; ++i) {
      send_all(connection, bytes.substr(i, 1));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  };
}

}  // namespace tunesmith::fleet
