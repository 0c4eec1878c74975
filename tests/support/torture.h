#pragma once
// How long tests with random faults run: a short form in every test run, the long form in `make torture`.

#include <cstdlib>

namespace tunesmith {

/// Returns `few`, multiplied by the environment variable TUNESMITH_TORTURE if it is set.
inline unsigned torture_rounds(unsigned few) {
  const char* const factor = std::getenv("TUNESMITH_TORTURE");
  const long times = factor == nullptr ? 1 : std::strtol(factor, nullptr, 10);
  return few * static_cast<unsigned>(times < 1 ? 1 : times);
}

}  // namespace tunesmith
