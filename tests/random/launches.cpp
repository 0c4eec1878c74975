#include "tests/random/launches.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "jit/cuda/device.h"
#include "tests/random/chance.h"
#include "tests/support/graph_calls.h"
#include "tuner/array_layout.h"
#include "tuner/device_memory.h"
#include "tunesmith/error.h"

namespace tunesmith::test {
namespace {

constexpr std::size_t slack = 256;

/// The arrays of a problem on a device, each in memory of its own.
class Arrays {
 public:
  Arrays(const ParsedProblem& problem, Device& device, std::uint64_t seed) : device_(device) {
    std::vector<ArrayInfo> infos = problem.arrays();
    std::vector<HostArray> arrays;
    for (const ArrayInfo& info : infos) {
      images_.emplace_back(static_cast<std::size_t>(info.extent_bytes()) + 2 * slack, std::byte{0x5A});
      arrays.push_back({info, images_.back().data() + slack});
    }
    problem.fill_inputs(seed, InputKind::random, arrays);
    owners_ = storage_owners(infos);
    for (const std::vector<std::byte>& image : images_) memory_.emplace_back(device, image.size());
    for (std::size_t i = 0; i < images_.size(); ++i) {
      addresses_.push_back(memory_[owners_[i]].get() + slack);
      is_output_.push_back(infos[i].output);
      promised_.push_back(infos[i].in_place_of.empty());
    }
    upload();
  }

  std::vector<void*>& addresses() { return addresses_; }
  void upload() {
    for (std::size_t i = 0; i < images_.size(); ++i)
      device_.copy_to_device(memory_[i].get(), images_[i].data(), images_[i].size());
  }
  std::vector<std::vector<std::byte>> download() const {
    std::vector<std::vector<std::byte>> found = images_;
    for (std::size_t i = 0; i < images_.size(); ++i)
      device_.copy_to_host(found[i].data(), memory_[i].get(), found[i].size());
    return found;
  }
  const std::vector<std::vector<std::byte>>& images() const { return images_; }

 private:
  Device& device_;
  std::vector<std::vector<std::byte>> images_;
  std::vector<DeviceMemory> memory_;
  std::vector<std::size_t> owners_;
  std::vector<void*> addresses_;
  std::vector<bool> is_output_, promised_;
};

}  // namespace

std::string check_addresses(const ParsedProblem& problem, const Executable& executable, Device& device, std::uint64_t seed) {
  const LaunchPlan& plan = executable.plan();
  if (plan.kernels.empty()) return {};
  Arrays arrays(problem, device, seed);
  Chance chance(seed);
  for (int tries = 0; tries < 3; ++tries) {
    const auto i = static_cast<std::size_t>(chance.below(static_cast<std::int64_t>(plan.pointers.size())));
    const LaunchPlan::Pointer& pointer = plan.pointers[i];
    if (pointer.extent_bytes == 0) continue;
    std::vector<void*> addresses = arrays.addresses();
    const char* flaw = "null";
    if (const auto kind = chance.below(3); kind == 0 && !pointer.optional) {
      addresses[i] = nullptr;
    } else if (kind == 1 && pointer.alignment > 1) {
      flaw = "misaligned";
      addresses[i] = static_cast<std::byte*>(addresses[i]) + pointer.alignment / 2;
    } else if (kind == 2 && pointer.written) {
      flaw = "overlapping";
      const auto other = static_cast<std::size_t>(chance.below(static_cast<std::int64_t>(plan.pointers.size())));
      const std::int64_t shift = std::max<std::int64_t>(pointer.alignment, plan.pointers[other].alignment);
      if (other == i || plan.pointers[other].extent_bytes <= shift || arrays.addresses()[other] == addresses[i]) continue;
      addresses[i] = static_cast<std::byte*>(arrays.addresses()[other]) + shift;
    } else {
      continue;
    }
    try {
      executable.enqueue(addresses, nullptr);
      device.synchronize(nullptr);
      return std::string("a launch with a ") + flaw + " address of " + pointer.array + " is accepted";
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument || !names(error.what(), pointer.array))
        return std::string("the error of a ") + flaw + " address of " + pointer.array + " does not name it: " + error.what();
    }
    if (arrays.download() != arrays.images())
      return std::string("a rejected launch has written, ") + flaw + " " + pointer.array;
  }
  return {};
}

std::string check_repeats(const ParsedProblem& problem, const Executable& executable, Device& device, std::uint64_t seed,
                          bool graph) {
  if (executable.plan().kernels.empty() || !executable.plan().sums_in_any_order.empty()) return {};
  Arrays arrays(problem, device, seed);
  const auto launch = [&] {
    arrays.upload();
    executable.enqueue(arrays.addresses(), nullptr);
    device.synchronize(nullptr);
    return arrays.download();
  };
  const auto first = launch();
  for (int i = 0; i < 8; ++i)
    if (launch() != first) return "repeated launches differ";
  auto* const cuda = dynamic_cast<CudaDevice*>(&device);
  if (!graph || cuda == nullptr) return {};
  arrays.upload();
  std::string failure;
  const GraphCalls calls(cuda->driver());
  device.time_us(std::vector<std::function<void(Stream)>>{[&](Stream stream) {
                   GraphCalls::Handle captured = nullptr, exec = nullptr;
                   if (calls.begin_capture(stream, 0) != 0) failure = "begin_capture failed";
                   try {
                     executable.enqueue(arrays.addresses(), stream);
                   } catch (const Error& error) {
                     failure = std::string("a launch in a capture throws: ") + error.what();
                   }
                   if (calls.end_capture(stream, &captured) != 0 && failure.empty()) failure = "end_capture failed";
                   if (!failure.empty()) return;
                   if (calls.instantiate(&exec, captured, 0) != 0 || calls.launch(exec, stream) != 0)
                     failure = "the graph cannot be launched";
                   device.synchronize(stream);
                   if (exec != nullptr) calls.exec_destroy(exec);
                   calls.destroy(captured);
                 }},
                 false);
  if (failure.empty() && arrays.download() != first) failure = "a launch in a graph differs";
  return failure;
}

}  // namespace tunesmith::test
