#pragma once
// A proxy that does to replies of a server what a bad network and bad servers do.

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

namespace tunesmith::fleet {

/// Forwards connections from one Unix socket to another. A share of the replies is delayed, cut, changed, repeated, or never
/// arrives.
class ChaosProxy {
 public:
  ChaosProxy(std::filesystem::path from, std::filesystem::path to, double share, unsigned seed);
  ~ChaosProxy();
  ChaosProxy(const ChaosProxy&) = delete;
  ChaosProxy& operator=(const ChaosProxy&) = delete;

  int faults() const { return faults_; }

 private:
  void accept_all();
  void forward(int client, unsigned seed);

  const std::filesystem::path to_;
  const double share_;
  unsigned seed_;
  int listener_;
  std::atomic<bool> stopped_{false};
  std::atomic<int> faults_{0};
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace tunesmith::fleet
