// Errors of the C API: each function catches what its C++ counterpart throws and keeps the message for the calling thread.

#include "tunesmith/error.h"

#include <new>
#include <string>

#include "api/c/calls.h"

using namespace tunesmith;

namespace {

struct LastError {
  std::string message, log, source_path;
};
thread_local LastError last_error;

// The C numbers follow ErrorCode, one further because 0 is success.
constexpr tunesmith_status status_of(ErrorCode code) { return static_cast<tunesmith_status>(static_cast<int>(code) + 1); }
static_assert(status_of(ErrorCode::invalid_argument) == TUNESMITH_INVALID_ARGUMENT);
static_assert(status_of(ErrorCode::compile_failed) == TUNESMITH_COMPILE_FAILED);
static_assert(status_of(ErrorCode::capturing) == TUNESMITH_CAPTURING);
static_assert(status_of(ErrorCode::cache_failed) == TUNESMITH_CACHE_FAILED);

tunesmith_status fail(tunesmith_status status, const char* message) noexcept {
  last_error = {};
  try {
    last_error.message = message;
  } catch (const std::bad_alloc&) {  // the status must suffice
  }
  return status;
}

}  // namespace

tunesmith_status tunesmith::status_of_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    const tunesmith_status status = fail(status_of(error.code()), error.what());
    try {
      last_error.log = error.log();
      last_error.source_path = error.source_path();
    } catch (const std::bad_alloc&) {
    }
    return status;
  } catch (const std::bad_alloc&) {
    return fail(TUNESMITH_OUT_OF_MEMORY, "host memory is exhausted");
  } catch (const std::exception& error) {
    return fail(TUNESMITH_INTERNAL, error.what());
  } catch (...) {
    return fail(TUNESMITH_INTERNAL, "an exception of unknown type");
  }
}

const char* tunesmith_version(void) { return TUNESMITH_VERSION; }

const char* tunesmith_status_name(tunesmith_status status) {
  if (status == TUNESMITH_OK) return "ok";
  if (status == TUNESMITH_INTERNAL) return "internal";
  return name(static_cast<ErrorCode>(static_cast<int>(status) - 1));
}

const char* tunesmith_last_error(void) { return last_error.message.c_str(); }
const char* tunesmith_last_error_log(void) { return last_error.log.c_str(); }
const char* tunesmith_last_error_source_path(void) { return last_error.source_path.c_str(); }
