#include "tunesmith/error.h"

namespace tunesmith {

const char* name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::io: return "io";
    case ErrorCode::no_compiler: return "no_compiler";
    case ErrorCode::no_device: return "no_device";
    case ErrorCode::compile_failed: return "compile_failed";
    case ErrorCode::device_failed: return "device_failed";
    case ErrorCode::verification_failed: return "verification_failed";
    case ErrorCode::cancelled: return "cancelled";
    case ErrorCode::capturing: return "capturing";
    case ErrorCode::out_of_memory: return "out_of_memory";
    case ErrorCode::cache_failed: return "cache_failed";
  }
  return "unknown";
}

}  // namespace tunesmith
