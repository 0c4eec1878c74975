#pragma once
// What tests of the C API run on: the host executor, without a cache file.

#include <gtest/gtest.h>

#include "tunesmith/c_api.h"

namespace tunesmith::test {

inline tunesmith_options host_options() {
  tunesmith_options options{};
  options.struct_size = sizeof options;
  options.device = "host";
  options.cache_file = "";
  return options;
}

/// Untuned, for the caller to destroy; null, and a failed test, where it cannot be made.
inline tunesmith_engine* host_engine() {
  tunesmith_options options = host_options();
  options.mode = "off";
  tunesmith_engine* engine = nullptr;
  EXPECT_EQ(tunesmith_engine_create(&options, &engine), TUNESMITH_OK) << tunesmith_last_error();
  return engine;
}

}  // namespace tunesmith::test
