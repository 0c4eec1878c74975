#include "api/c/problem.h"

#include "tunesmith/error.h"

using namespace tunesmith;

void tunesmith_problem::set(std::string_view field, Value value) {
  problem_.fields.set(field, std::move(value));
  checked_.reset();
  recent_plans_.clear();
}

const tunesmith_problem::Checked& tunesmith_problem::checked() const {
  const std::lock_guard lock(mutex_);
  if (checked_ == nullptr) {
    CheckedProblem checked = check_problem(problem_);
    // NOLINTNEXTLINE(modernize-make-unique): an ArrayTable cannot be moved
    checked_.reset(new Checked{std::move(checked.text), ArrayTable(std::move(checked.arrays))});
  }
  return *checked_;
}

namespace {

void set_field(tunesmith_problem* problem, const char* field, Value value) {
  const std::string_view name = &given(field, "field");
  if (name.empty()) throw Error(ErrorCode::invalid_argument, "field is empty; expected the name of a problem's field");
  given(problem, "problem").set(name, std::move(value));
}

}  // namespace

const char* tunesmith_op(size_t number) {
  const std::vector<std::string>& names = operation_names();
  return number < names.size() ? names[number].c_str() : nullptr;
}

tunesmith_status tunesmith_problem_create(const char* op, tunesmith_problem** problem) {
  return guarded([&] {
    std::string name = &given(op, "op");
    require_operation(name);
    given(problem, "problem") = new tunesmith_problem(std::move(name));
  });
}

void tunesmith_problem_destroy(tunesmith_problem* problem) { delete problem; }

tunesmith_status tunesmith_problem_set_int(tunesmith_problem* problem, const char* field, int64_t value) {
  return guarded([&] { set_field(problem, field, std::int64_t{value}); });
}

tunesmith_status tunesmith_problem_set_real(tunesmith_problem* problem, const char* field, double value) {
  return guarded([&] { set_field(problem, field, value); });
}

tunesmith_status tunesmith_problem_set_string(tunesmith_problem* problem, const char* field, const char* value) {
  return guarded([&] { set_field(problem, field, std::string(&given(value, "value"))); });
}

tunesmith_status tunesmith_problem_text(const tunesmith_problem* problem, const char** text) {
  return guarded([&] {
    const char*& result = given(text, "text");
    result = given(problem, "problem").text().c_str();
  });
}

tunesmith_status tunesmith_problem_arrays(const tunesmith_problem* problem, const tunesmith_array** arrays, size_t* count) {
  return guarded([&] {
    const tunesmith_array*& result = given(arrays, "arrays");
    size_t& result_count = given(count, "count");
    const std::span<const tunesmith_array> all = given(problem, "problem").arrays().arrays();
    result = all.data();
    result_count = all.size();
  });
}
