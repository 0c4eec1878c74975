#pragma once
// The handles of the C API, and what each of its functions is wrapped in. Internal.

#include "tunesmith/c_api.h"
#include "tunesmith/engine.h"

struct tunesmith_engine {
  tunesmith::Engine engine;
};
struct tunesmith_problem {
  tunesmith::Problem problem;
};

namespace tunesmith {

/// The status for the exception that is being handled; its message is kept for the calling thread.
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

template <typename T>
T& given(T* argument, const char* name) {
  if (argument == nullptr) throw Error(ErrorCode::invalid_argument, name, " is NULL");
  return *argument;
}

}  // namespace tunesmith
