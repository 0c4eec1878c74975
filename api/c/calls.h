#pragma once
// The engine handle of the C API, and the wrapper of each of its functions. Internal.

#include <cstdint>

#include "tunesmith/c_api.h"
#include "tunesmith/engine.h"

struct tunesmith_engine {
  tunesmith::Engine engine;
  std::uint64_t id;  ///< unique in this process, unlike the engine's address
};

namespace tunesmith {

/// Returns the status of the exception that is being handled, and keeps its message for the calling thread.
tunesmith_status status_of_current_exception() noexcept;

template <typename Body>
tunesmith_status guarded(const Body& body) noexcept {
  try {
    body();
    return TUNESMITH_OK;
  } catch (...) {
    return status_of_current_exception();
  }
}

/// Returns *argument. Throws Error(invalid_argument) for a null pointer.
template <typename T>
T& given(T* argument, const char* name) {
  if (argument == nullptr) throw Error(ErrorCode::invalid_argument, name, " is NULL");
  return *argument;
}

}  // namespace tunesmith
