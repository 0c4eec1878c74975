#pragma once
// An engine on the host executor and a problem of softmax, and the check of messages.

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>

#include "tests/api/c/host_engine.h"
#include "tunesmith/c_api.h"

namespace tunesmith::test {

/// The message must contain every word.
inline void expect_message(std::initializer_list<const char*> words) {
  for (const char* word : words)
    EXPECT_NE(std::strstr(tunesmith_last_error(), word), nullptr)
        << "'" << word << "' is not in: " << tunesmith_last_error();
}

class CApi : public testing::Test {
 protected:
  void SetUp() override {
    const tunesmith_options options = host_options();
    ASSERT_EQ(tunesmith_engine_create(&options, &engine_), TUNESMITH_OK) << tunesmith_last_error();
    ASSERT_EQ(tunesmith_problem_create("softmax", &problem_), TUNESMITH_OK);
  }
  void TearDown() override {
    tunesmith_problem_destroy(problem_);
    tunesmith_engine_destroy(engine_);
  }

  tunesmith_engine* engine_ = nullptr;
  tunesmith_problem* problem_ = nullptr;
};

}  // namespace tunesmith::test
