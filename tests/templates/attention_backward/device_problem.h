#pragma once
// Device arrays of a problem that a test launches itself.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "templates/op.h"
#include "tunesmith/buffer.h"
#include "tunesmith/engine.h"

namespace tunesmith::test {

/// Allocates the arrays of a problem, fills inputs with random values and outputs with NaN.
class DeviceProblem {
 public:
  DeviceProblem(Engine& engine, const ParsedProblem& problem) {
    std::vector<HostArray> host;
    for (const ArrayInfo& info : problem.arrays()) {
      const auto bytes = static_cast<std::size_t>(info.extent_bytes());
      memory_.emplace_back(bytes, std::byte{0xFF});
      host.push_back({info, memory_.back().data()});
    }
    problem.fill_inputs(3, InputKind::random, host);
    for (const HostArray& array : host) {
      names_.push_back(array.info.name);
      const auto bytes = static_cast<std::size_t>(array.info.extent_bytes());
      buffers_.emplace_back(engine, bytes);
      buffers_.back().copy_from_host(array.data, bytes);
      addresses_.push_back(buffers_.back().data());
    }
  }
  const std::vector<void*>& addresses() const { return addresses_; }
  std::vector<std::byte> fetch(const std::string& name) {
    const std::size_t at = index(name);
    std::vector<std::byte> result(memory_[at].size());
    buffers_[at].copy_to_host(result.data(), result.size());
    return result;
  }
  std::vector<std::byte>& host(const std::string& name) { return memory_[index(name)]; }
  void send(const std::string& name) {
    const std::size_t at = index(name);
    buffers_[at].copy_from_host(memory_[at].data(), memory_[at].size());
  }

 private:
  std::size_t index(const std::string& name) const {
    return static_cast<std::size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
  }

  std::vector<std::string> names_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<void*> addresses_;
};

}  // namespace tunesmith::test
