#pragma once
// Outputs of row programs on the host executor, for inputs that a test gives.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/host_kernels.h"

namespace tunesmith::test {

class RowProgramHost : public HostKernels {
 protected:
  /// Launches a case on given inputs and returns the outputs.
  std::vector<std::vector<std::byte>> outputs_of(const Executable& executable, const Case& c,
                                                 const std::vector<std::vector<std::byte>>& inputs) {
    const std::vector<ArrayInfo> infos = c.op().parse(c.problem)->arrays();
    std::vector<std::vector<std::byte>> memory;
    std::vector<void*> addresses;
    std::size_t given = 0;
    for (const ArrayInfo& info : infos) {
      memory.emplace_back(static_cast<std::size_t>(info.extent_bytes()) + 16, std::byte{0xff});
      if (info.input) std::ranges::copy(inputs[given++], memory.back().begin());
    }
    for (std::vector<std::byte>& array : memory) {
      const auto address = reinterpret_cast<std::uintptr_t>(array.data());
      EXPECT_EQ(address % 16, 0U);
      addresses.push_back(array.data());
    }
    executable.enqueue(addresses, nullptr);
    std::vector<std::vector<std::byte>> outputs;
    for (std::size_t i = 0; i < infos.size(); ++i)
      if (infos[i].output) {
        memory[i].resize(static_cast<std::size_t>(infos[i].extent_bytes()));
        outputs.push_back(std::move(memory[i]));
      }
    return outputs;
  }
};

}  // namespace tunesmith::test
