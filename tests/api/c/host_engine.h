#pragma once
// What tests of the C API run on: the host executor, without a cache file.

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>

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

/// A problem by its fields.
class NamedProblem {
 public:
  using Field = std::pair<const char*, std::variant<int, double, std::string>>;

  explicit NamedProblem(const char* op, std::initializer_list<Field> fields = {}) {
    EXPECT_EQ(tunesmith_problem_create(op, &problem_), TUNESMITH_OK) << tunesmith_last_error();
    for (const Field& field : fields) set(field.first, field.second);
  }
  ~NamedProblem() { tunesmith_problem_destroy(problem_); }
  NamedProblem(const NamedProblem&) = delete;
  NamedProblem& operator=(const NamedProblem&) = delete;

  void set(const char* field, const std::variant<int, double, std::string>& value) {
    tunesmith_status status = TUNESMITH_OK;
    if (const int* integer = std::get_if<int>(&value)) status = tunesmith_problem_set_int(problem_, field, *integer);
    if (const double* real = std::get_if<double>(&value)) status = tunesmith_problem_set_real(problem_, field, *real);
    if (const std::string* text = std::get_if<std::string>(&value))
      status = tunesmith_problem_set_string(problem_, field, text->c_str());
    EXPECT_EQ(status, TUNESMITH_OK) << tunesmith_last_error();
  }
  tunesmith_problem* get() const { return problem_; }

 private:
  tunesmith_problem* problem_ = nullptr;
};

}  // namespace tunesmith::test
