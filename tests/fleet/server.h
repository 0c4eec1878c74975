#pragma once
// A server of the test's own, Valkey or Redis, on a socket in a temporary folder.

#include <gtest/gtest.h>
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "fleet/client.h"

namespace tunesmith::fleet {

/// Reports whether valkey-server or redis-server is installed, or the one that TUNESMITH_TEST_SERVER names.
bool has_server();

/// Skips the test if there is no server.
#define TUNESMITH_NEEDS_SERVER() \
  if (!has_server()) GTEST_SKIP() << "neither valkey-server nor redis-server is installed (scripts/setup.sh installs it)"

/// A temporary folder, and a server in it that start() starts. The folder and the server end with the test.
class FleetTest : public testing::Test {
 protected:
  FleetTest();
  ~FleetTest() override;

  /// Starts the server and waits until it answers.
  void start(const std::vector<std::string>& options = {});
  /// Ends the server. With SIGTERM it saves its data if `options` of start() say so; with SIGKILL it does not.
  void stop(int signal);
  void signal_server(int signal) const { kill(server_, signal); }

  std::filesystem::path path(const std::string& name) const { return folder_ / name; }
  /// The URL of the server; `options` are appended: "&ns=prod".
  std::string url(const std::string& options = "") const;
  /// Opens a connection with a long deadline.
  std::unique_ptr<Client> connect(const std::string& options = "") const;
  /// Writes a private key `name` and its public key `name`.pub.
  void make_key(const std::string& name) const;

 private:
  std::filesystem::path folder_;
  pid_t server_ = 0;
  std::vector<std::string> options_;
};

/// Returns a free port of the loopback interface. Another program may take it before it is used.
int free_port();

}  // namespace tunesmith::fleet
