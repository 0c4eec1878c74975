#pragma once
// The key of a one-shot call.

#include "api/dispatch/call_key.h"

namespace tunesmith::test {

/// As Engine::run makes it.
template <typename Typed>
CallKey key_of(const Typed& problem, const typename Typed::Arrays& arrays) {
  CallReader<key_words<Typed>()> call(problem.op());
  describe(problem, arrays, call);
  return CallKey({call.words(), call.hash()});
}

}  // namespace tunesmith::test
