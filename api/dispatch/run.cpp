// One-shot calls of every operation, beyond the part that is compiled for a problem type.

#include <array>
#include <bit>

#include "api/dispatch/plan_table.h"
#include "api/engine/config_choices.h"
#include "api/engine/parts.h"
#include "jit/executable.h"
#include "tunesmith/engine.h"

namespace tunesmith {

bool Engine::run_known(const Call& call, Stream stream) const {
  const auto reading = parts_->plans->calls.read();
  const KnownCall* const known = reading.find(CallKeyView{call.key, call.hash});
  if (known == nullptr) return false;
  if (known->plan->counts_uses && parts_->choices->outgrows_capacity(*known->plan, stream)) return false;
  std::array<void*, AddressList::max_selected> addresses;  // NOLINT: only the first `count` are used
  std::size_t count = 0;
  for (std::uint32_t left = known->selected; left != 0; left &= left - 1)
    addresses[count++] = call.addresses[static_cast<std::size_t>(std::countr_zero(left))];
  known->plan->executable->enqueue({addresses.data(), count}, stream);
  return true;
}

void Engine::remember(const Call& call, const Plan& plan, std::uint32_t selected) {
  parts_->plans->calls.insert(CallKey(CallKeyView{call.key, call.hash}), {plan.state_, selected});
}

}  // namespace tunesmith
