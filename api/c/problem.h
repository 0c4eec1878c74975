#pragma once
// The problem handle of the C API. Internal.

#include <memory>
#include <mutex>

#include "api/c/arrays.h"
#include "api/c/calls.h"
#include "api/c/one_shot.h"

/// Fields by name, and what earlier calls have computed from them.
struct tunesmith_problem {
 public:
  explicit tunesmith_problem(std::string op) : problem_{std::move(op), {}} {}

  const tunesmith::Problem& problem() const noexcept { return problem_; }
  void set(std::string_view field, tunesmith::Value value);

  /// The normal form and the arrays. Checks the problem on the first call after a change.
  const std::string& text() const { return checked().text; }
  const tunesmith::ArrayTable& arrays() const { return checked().arrays; }
  tunesmith::RecentPlans& recent_plans() const noexcept { return recent_plans_; }

 private:
  struct Checked {
    std::string text;
    tunesmith::ArrayTable arrays;
  };
  const Checked& checked() const;

  tunesmith::Problem problem_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<const Checked> checked_;
  mutable tunesmith::RecentPlans recent_plans_;
};
