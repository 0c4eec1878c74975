#pragma once
// A server that answers a login correctly and then misbehaves.

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tunesmith::fleet {

class FaultyServer {
 public:
  /// Misbehaves on one connection, after its first request was answered with +PONG and the second one arrived. Returns when
  /// the connection should be closed. `stopped` becomes true at the end of the test.
  using Fault = std::function<void(int connection, const std::atomic<bool>& stopped)>;

  /// Listens on a Unix socket. With `answers_login` false, `fault` starts at the first request.
  FaultyServer(const std::filesystem::path& socket, Fault fault, bool answers_login = true);
  ~FaultyServer();
  FaultyServer(const FaultyServer&) = delete;
  FaultyServer& operator=(const FaultyServer&) = delete;

  int connections() const { return connections_; }

 private:
  void serve();

  const Fault fault_;
  const bool answers_login_;
  int listener_;
  std::atomic<bool> stopped_{false};
  std::atomic<int> connections_{0};
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

// Faults.
/// Never answers.
FaultyServer::Fault hang();
/// Sends the bytes and keeps the connection.
FaultyServer::Fault say(const std::string& bytes);
/// Sends the bytes and closes the connection.
FaultyServer::Fault say_and_close(const std::string& bytes);
/// Sends a byte every 50 ms.
FaultyServer::Fault trickle(const std::string& bytes);

}  // namespace tunesmith::fleet
