#include "tests/fleet/server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "fleet/protocol/error.h"
#include "fleet/signing.h"

namespace tunesmith::fleet {
namespace {

/// Returns the path of a program in PATH; empty if it is not there.
std::string find_program(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const std::string place = (std::filesystem::path(folder) / name).string(); access(place.c_str(), X_OK) == 0)
      return place;
  return {};
}

/// Returns the server to start: TUNESMITH_TEST_SERVER if it is set, else Valkey, else Redis. server_program.sh does the
/// same.
std::string program() {
  if (const char* const chosen = std::getenv("TUNESMITH_TEST_SERVER"); chosen != nullptr && *chosen != 0)
    return find_program(chosen);
  const std::string valkey = find_program("valkey-server");
  return valkey.empty() ? find_program("redis-server") : valkey;
}

}  // namespace

bool has_server() { return !program().empty(); }

FleetTest::FleetTest() {
  std::string name = (std::filesystem::temp_directory_path() / "tunesmith-fleet-XXXXXX").string();
  folder_ = mkdtemp(name.data());
}

FleetTest::~FleetTest() {
  if (server_ != 0) stop(SIGKILL);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void FleetTest::start(const std::vector<std::string>& options) {
  options_ = options;
  std::vector<std::string> words{
      program(), "--port",       "0",  "--unixsocket", path("server.sock"), "--dir", folder_.string(), "--save",
      "",        "--appendonly", "no", "--logfile",    path("server.log")};
  words.insert(words.end(), options.begin(), options.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  server_ = fork();
  if (server_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    execv(argv[0], argv.data());
    _exit(127);
  }
  for (int attempt = 0; attempt < 500; ++attempt) try {
      Client::open(parse_remote_url("redis+unix:" + path("server.sock").string()), after(Milliseconds(1000)));
      return;
    } catch (const RemoteError& error) {
      if (error.failure() == Failure::auth) return;
      std::this_thread::sleep_for(Milliseconds(10));
    }
  FAIL() << program() << " does not answer; see " << path("server.log");
}

void FleetTest::stop(int signal) {
  kill(server_, signal);
  kill(server_, SIGCONT);
  waitpid(server_, nullptr, 0);
  server_ = 0;
}

std::string FleetTest::url(const std::string& options) const {
  return "redis+unix:" + path("server.sock").string() + "?connect_ms=2000&get_ms=2000&binary_ms=2000" + options;
}

std::unique_ptr<Client> FleetTest::connect(const std::string& options) const {
  return Client::open(parse_remote_url(url(options)), after(Milliseconds(5000)));
}

void FleetTest::make_key(const std::string& name) const {
  const SigningKey key = SigningKey::generate();
  key.write(path(name));
  std::ofstream(path(name + ".pub")) << trust_line(key.public_key(), name) << "\n";
}

int free_port() {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  bind(descriptor, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size);
  close(descriptor);
  return ntohs(address.sin_port);
}

}  // namespace tunesmith::fleet
