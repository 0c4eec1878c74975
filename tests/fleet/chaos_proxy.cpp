#include "tests/fleet/chaos_proxy.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <random>
#include <string>

namespace tunesmith::fleet {
namespace {

sockaddr_un address_of(const std::filesystem::path& socket) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::strncpy(name.sun_path, socket.c_str(), sizeof name.sun_path - 1);
  return name;
}

bool send_all(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace

ChaosProxy::ChaosProxy(std::filesystem::path from, std::filesystem::path to, double share, unsigned seed)
    : to_(std::move(to)), share_(share), seed_(seed), listener_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const sockaddr_un name = address_of(from);
  bind(listener_, reinterpret_cast<const sockaddr*>(&name), sizeof name);
  listen(listener_, 64);
  acceptor_ = std::thread([this] { accept_all(); });
}

ChaosProxy::~ChaosProxy() {
  stopped_ = true;
  acceptor_.join();
  for (std::thread& thread : threads_) thread.join();
  close(listener_);
}

void ChaosProxy::accept_all() {
  while (!stopped_) {
    pollfd entry{listener_, POLLIN, 0};
    if (poll(&entry, 1, 20) <= 0) continue;
    const int client = accept(listener_, nullptr, nullptr);
    threads_.emplace_back([this, client, seed = ++seed_] { forward(client, seed); });
  }
}

void ChaosProxy::forward(int client, unsigned seed) {
  std::mt19937 random(seed);
  const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un name = address_of(to_);
  bool is_open = connect(server, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
  std::array<char, 16384> buffer;
  while (is_open && !stopped_) {
    std::array<pollfd, 2> entries{{{client, POLLIN, 0}, {server, POLLIN, 0}}};
    if (poll(entries.data(), entries.size(), 20) <= 0) continue;
    const bool is_reply = entries[0].revents == 0;
    const ssize_t size = recv(is_reply ? server : client, buffer.data(), buffer.size(), 0);
    if (size <= 0) break;
    std::string bytes(buffer.data(), static_cast<std::size_t>(size));
    if (is_reply && std::uniform_real_distribution(0.0, 1.0)(random) < share_) {
      ++faults_;
      const std::size_t at = random() % bytes.size();
      switch (random() % 6) {
        case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8)); break;
        case 1: bytes.resize(at); break;  // the rest never arrives
        case 2: bytes += bytes; break;
        case 3: bytes.erase(at, 1 + random() % 8); break;
        case 4: std::this_thread::sleep_for(std::chrono::milliseconds(60)); break;
        default: bytes.resize(at); is_open = false;
      }
    }
    is_open = send_all(is_reply ? client : server, bytes) && is_open;
  }
  close(client);
  close(server);
}

}  // namespace tunesmith::fleet
