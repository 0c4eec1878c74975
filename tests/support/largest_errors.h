#pragma once
// What the verification of many cases found.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include "tests/support/cases.h"

namespace tunesmith::test {

/// Collects the largest error of each operation, variant and output dtype.
class LargestErrors {
 public:
  /// Fails the current test if the result is wrong.
  void add(const Case& c, const CheckResult& result) {
    EXPECT_TRUE(result.passed) << c.text() << ": " << result.first_failure;
    std::string dtype = "f32";  // of operations without a choice
    for (const char* field : {"dtype", "out_dtype"})
      if (c.problem.fields.contains(field)) dtype = c.problem.fields.string(field);
    Group& group = groups_[c.problem.op + " " + c.config.variant() + " " + dtype];
    group.op = c.problem.op;
    group.is_float32 = dtype == "f32";
    group.unit = result.error_unit;
    group.error = std::max(group.error, result.max_error);
    if (result.allowed_error > 0) group.share = std::max(group.share, result.max_error / result.allowed_error);
    ++group.cases;
  }

  /// Returns the largest error of float32 results, of one operation or of all, in the unit of their check.
  double float32(std::string_view op = {}) const {
    double largest = 0;
    for (const auto& [name, group] : groups_)
      if (group.is_float32 && (op.empty() || op == group.op)) largest = std::max(largest, group.error);
    return largest;
  }

  /// Returns the largest error of f64 results of an operation, in the unit of its check.
  double float64(std::string_view op) const {
    double largest = 0;
    for (const auto& [name, group] : groups_)
      if (name.ends_with(" f64") && op == group.op) largest = std::max(largest, group.error);
    return largest;
  }

  /// Returns the largest share of the allowed error.
  double share() const {
    double largest = 0;
    for (const auto& [name, group] : groups_) largest = std::max(largest, group.share);
    return largest;
  }

  void print() const {
    for (const auto& [name, group] : groups_)
      std::printf("%s: %d cases, largest error %.3g %s, %.2f of the allowed one\n", name.c_str(), group.cases, group.error,
                  group.unit.c_str(), group.share);
  }

 private:
  struct Group {
    std::string op, unit;
    double error = 0, share = 0;
    bool is_float32 = false;
    int cases = 0;
  };

  std::map<std::string, Group> groups_;
};

}  // namespace tunesmith::test
