#include "api/cli/input/forward_pass.h"

#include <algorithm>

#include "api/engine/parts.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

/// The forward problem has some of the backward problem's fields. It computes its own block mask unless that is given.
Problem forward_problem(const Problem& backward) {
  const Op& op = find_op("attention");
  Problem forward{std::string(op.name()), {}};
  for (const FieldInfo& info : op.problem_fields())
    if (const Value* const value = backward.fields.find(info.name))
      if (info.name != "block_mask" || *value == Value(std::string("read"))) forward.fields.set(info.name, *value);
  return op.normalize(forward);
}

}  // namespace

void run_forward_pass(Engine& engine, const Problem& problem, const std::vector<HostArray>& arrays,
                      const InputFiles& files) {
  if (problem.op != "attention_backward") return;
  const bool has_o = files.contains("o"), has_lse = files.contains("lse");
  if (has_o != has_lse)
    throw Error(ErrorCode::invalid_argument, has_o ? "o" : "lse", " is given without ", has_o ? "lse" : "o",
                "; give both, or neither to run the forward pass first");
  if (has_o) return;
  const Problem forward = forward_problem(problem);
  PrepareOptions options;
  options.mode = Mode::off;
  const Plan plan = engine.prepare(forward, options);
  std::vector<HostArray> own;
  for (const ArrayInfo& info : find_op(forward.op).parse(forward)->arrays()) {
    const auto same = std::ranges::find_if(arrays, [&](const HostArray& array) { return array.info.name == info.name; });
    own.push_back({info, same->data});
  }
  Device& device = *engine.parts().device;
  const DeviceArrays on_device(device, own);
  plan.launch(on_device.addresses());
  device.synchronize(nullptr);
  on_device.fetch_outputs(own);
}

}  // namespace tunesmith::cli
