// What one-shot calls of every operation share beyond Engine::run: the table of known calls, and the first call for a key.

#include "api/dispatch/plan_table.h"
#include "api/engine/parts.h"
#include "jit/executable.h"
#include "tunesmith/engine.h"

namespace tunesmith {

const Executable* Engine::find_call(std::span<const std::uint64_t> key, std::uint64_t hash) const noexcept {
  return parts_->plans->calls.find(CallKeyView{key, hash});
}

const Executable& Engine::prepare_call(std::span<const std::uint64_t> key, std::uint64_t hash, const Description& call,
                                       const Problem& problem, Stream stream) {
  call.check_addresses();  // before any work
  const Executable& executable = *prepare(problem, {}, stream).state().executable;
  if (!key.empty()) parts_->plans->calls.insert(CallKey(CallKeyView{key, hash}), executable);
  return executable;  // the plan table keeps it alive
}

void Engine::enqueue(const Executable& executable, std::span<void* const> arrays, Stream stream) {
  executable.enqueue(arrays, stream);
}

}  // namespace tunesmith
