// Invalid random problems at the C API and at the command line: an error that names the field, nothing written, no crash.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "tests/api/c/host_engine.h"
#include "tests/api/cli/process.h"
#include "tests/random/case.h"
#include "tests/random/chance.h"
#include "tests/random/fresh_seed.h"

namespace tunesmith::test {
namespace {

std::string text_of(const Value& value) {
  if (const auto* const integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const auto* const text = std::get_if<std::string>(&value)) return *text;
  char real[32];
  std::snprintf(real, sizeof real, "%.17g", std::get<double>(value));
  return real;
}

/// Draws problems with one wrong field and without user functions, which the command line reads from files.
std::vector<RandomCase> draw_invalid(std::size_t count) {
  const std::uint64_t run = fresh_seed("fronts");
  std::printf("invalid problems from 0x%llx\n", static_cast<unsigned long long>(run));
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  std::vector<RandomCase> cases;
  for (std::uint64_t i = 0; cases.size() < count; ++i) {
    RandomCase drawn = draw(mixed(run, i), small_sizes, device);
    const auto is_text = [&](const FieldInfo& field) { return field.text && drawn.problem.fields.contains(field.name); };
    if (!drawn.broken.empty() && std::ranges::none_of(find_op(drawn.problem.op).cached_fields(), is_text))
      cases.push_back(std::move(drawn));
  }
  return cases;
}

bool names_field(const std::string& message, const std::string& field) {
  std::string flag = "--" + field;
  std::ranges::replace(flag, '_', '-');
  return names(message, field) || message.find(flag) != std::string::npos;
}

TEST(InvalidProblems, OfTheCApi) {
  tunesmith_engine* const engine = host_engine();
  ASSERT_NE(engine, nullptr);
  for (const RandomCase& drawn : draw_invalid(500)) {
    tunesmith_problem* problem = nullptr;
    ASSERT_EQ(tunesmith_problem_create(drawn.problem.op.c_str(), &problem), TUNESMITH_OK) << tunesmith_last_error();
    for (const auto& [name, value] : drawn.problem.fields) {
      const std::string field(name);
      if (const auto* const integer = std::get_if<std::int64_t>(&value))
        tunesmith_problem_set_int(problem, field.c_str(), *integer);
      else if (const auto* const text = std::get_if<std::string>(&value))
        tunesmith_problem_set_string(problem, field.c_str(), text->c_str());
      else
        tunesmith_problem_set_real(problem, field.c_str(), std::get<double>(value));
    }
    const char* text = nullptr;
    const tunesmith_array* arrays = nullptr;
    std::size_t count = 0;
    tunesmith_plan* plan = nullptr;
    void* address = nullptr;
    const auto expect_rejected = [&](tunesmith_status status) {
      EXPECT_EQ(status, TUNESMITH_INVALID_ARGUMENT) << drawn.text();
      EXPECT_TRUE(names_field(tunesmith_last_error(), drawn.broken)) << drawn.text() << ": " << tunesmith_last_error();
    };
    expect_rejected(tunesmith_problem_text(problem, &text));
    expect_rejected(tunesmith_problem_arrays(problem, &arrays, &count));
    expect_rejected(tunesmith_prepare(engine, problem, nullptr, TUNESMITH_MODE_OFF, &plan));
    expect_rejected(tunesmith_run(engine, problem, &address, 1, nullptr));
    EXPECT_EQ(plan, nullptr);
    tunesmith_problem_destroy(problem);
  }
  tunesmith_engine_destroy(engine);
}

class InvalidProblemsOfTheCommandLine : public cli::CliTest {};

TEST_F(InvalidProblemsOfTheCommandLine, NameTheFieldAndWriteNothing) {
  const std::vector<std::string> before = files();
  std::set<std::string> ops;
  for (const RandomCase& drawn : draw_invalid(40)) {
    const Op& op = find_op(drawn.problem.op);
    ops.insert(drawn.problem.op);
    std::vector<std::string> arguments{"run", drawn.problem.op, "--device", "host", "--mode", "off"};
    for (const auto& [name, value] : drawn.problem.fields) {
      arguments.emplace_back("--option");
      arguments.push_back(std::string(name) + "=" + text_of(value));
    }
    for (const ArrayInfo& array : op.describe_arrays({}))
      // The file of an output determines its strides.
      if (array.output && array.present && !drawn.broken.starts_with(array.name + "_")) {
        arguments.insert(arguments.end(), {"--output", array.name + "=" + path("output.npy")});
        break;
      }
    const cli::Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << drawn.text() << ": " << outcome.err;
    EXPECT_EQ(outcome.out, "") << drawn.text();
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << drawn.text() << ": " << outcome.err;
    EXPECT_TRUE(names_field(outcome.err, drawn.broken)) << drawn.text() << ": " << outcome.err;
    EXPECT_EQ(files(), before) << drawn.text();
  }
  EXPECT_GE(ops.size(), 5U);
}

}  // namespace
}  // namespace tunesmith::test
