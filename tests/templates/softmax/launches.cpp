#include "tests/templates/softmax/launches.h"

#include <algorithm>

namespace tunesmith::test {

Launches::Launches(const Op& op, const Problem& problem, Device& device, std::uint64_t seed) : device_(device) {
  std::vector<HostArray> inputs;
  for (ArrayInfo& info : op.parse(problem)->arrays()) {
    const auto bytes = static_cast<std::size_t>(info.extent_bytes());
    arrays_.push_back({std::move(info), std::vector<std::byte>(bytes, std::byte{0xFF}), DeviceMemory(device, bytes)});
  }
  for (Array& array : arrays_) inputs.push_back({array.info, array.sent.data()});
  op.parse(problem)->fill_inputs(seed, InputKind::random, inputs);
}

std::vector<std::byte> Launches::launch(const Executable& executable) const {
  std::vector<void*> addresses;
  const Array* output = nullptr;
  for (const Array& array : arrays_) {
    device_.copy_to_device(array.memory.get(), array.sent.data(), array.sent.size());
    addresses.push_back(array.memory.get());
    if (!array.info.output) continue;
    output = &array;
    if (!array.info.in_place_of.empty()) {
      output = &*std::ranges::find(arrays_, array.info.in_place_of, [](const Array& one) { return one.info.name; });
      addresses.back() = output->memory.get();
    }
  }
  executable.enqueue(addresses, nullptr);
  device_.synchronize(nullptr);
  std::vector<std::byte> result(output->sent.size());
  device_.copy_to_host(result.data(), output->memory.get(), result.size());
  return result;
}

std::string difference_between_launches(const Op& op, const Problem& problem, const Executable& executable, Device& device,
                                        int count) {
  const Launches launches(op, problem, device, 1);
  const std::vector<std::byte> first = launches.launch(executable);
  for (int i = 1; i < count; ++i) {
    const std::vector<std::byte> again = launches.launch(executable);
    const auto at = std::ranges::mismatch(first, again).in1 - first.begin();
    if (static_cast<std::size_t>(at) != first.size())
      return "launch " + std::to_string(i + 1) + " of the same input differs at byte " + std::to_string(at);
  }
  return {};
}

}  // namespace tunesmith::test
