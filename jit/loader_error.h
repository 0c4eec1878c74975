#pragma once
// Error messages of the dynamic loader.

#include <dlfcn.h>

#include <string>

namespace tunesmith {

/// Returns the message of the last failed dlopen() or dlsym() of this thread.
inline std::string loader_error() {
  const char* const message = dlerror();
  return message != nullptr ? message : "unknown loader error";
}

}  // namespace tunesmith
