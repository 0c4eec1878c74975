// One-shot cross-entropy that looks at its targets before it returns.

#include "api/dispatch/bad_targets.h"
#include "api/engine/parts.h"
#include "core/half.h"
#include "tuner/device_memory.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

std::int64_t target_at(Device& device, const void* targets, DType dtype, std::int64_t row) {
  std::byte target[sizeof(std::int64_t)];
  const std::int64_t bytes = size_of(dtype);
  device.copy_to_host(target, static_cast<const std::byte*>(targets) + row * bytes, static_cast<std::size_t>(bytes));
  return read_integer(dtype, target, 0);
}

/// Launches, waits, and throws for targets that are no class.
template <typename Problem, typename Arrays>
void launch_checked(Engine& engine, const Problem& problem, Arrays arrays, std::int64_t classes, Stream stream) {
  if (!problem.check_targets) return engine.run(problem, arrays, stream);
  Device& device = *engine.parts().device;
  if (device.is_capturing(stream))
    throw Error(ErrorCode::capturing,
                "check_targets is set and would wait for the stream, which is capturing; leave it out and give bad_targets");
  const DeviceMemory scratch(device, 2 * sizeof(std::int64_t));
  if (arrays.bad_targets == nullptr) arrays.bad_targets = scratch.get();
  engine.run(problem, arrays, stream);
  device.synchronize(stream);
  std::int64_t bad[2] = {};  // how many, and the first
  device.copy_to_host(bad, arrays.bad_targets, sizeof bad);
  if (bad[0] == 0) return;
  const std::int64_t target = target_at(device, arrays.targets, problem.target_dtype, bad[1]);
  throw Error(ErrorCode::invalid_argument, bad_target_text(bad[1], target, classes, problem.ignore_index, bad[0]));
}

}  // namespace

void Engine::run_checked(const CrossEntropyProblem& problem, CrossEntropyArrays arrays, Stream stream) {
  launch_checked(*this, problem, arrays, problem.cols, stream);
}

void Engine::run_checked(const CrossEntropyCombineProblem& problem, CrossEntropyCombineArrays arrays, Stream stream) {
  launch_checked(*this, problem, arrays, problem.vocab_size, stream);
}

}  // namespace tunesmith
