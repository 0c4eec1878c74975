#include "tests/random/checks.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "templates/render.h"
#include "tests/random/chance.h"
#include "tunesmith/error.h"

namespace tunesmith::test {
namespace {

/// Collects what is wrong; only the first failure is kept.
class Findings {
 public:
  template <typename... Parts>
  void expect(bool holds, const Parts&... parts) {
    if (holds || !text_.empty()) return;
    std::ostringstream text;
    (text << ... << parts);
    text_ = text.str();
  }
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c == '\n' || c == '\t' || static_cast<unsigned char>(c) >= 32; });
}

/// An error must say which argument is wrong.
void check_rejection(const RandomCase& random_case, const Error& error, Findings& findings) {
  const std::string_view message = error.what();
  const Op& op = find_op(random_case.problem.op);
  findings.expect(error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::unsupported,
                  "rejected with the code ", name(error.code()), ": ", message);
  findings.expect(!message.empty() && is_printable(message), "the error's message is not a printable line");
  if (!random_case.broken.empty()) {
    findings.expect(names(message, random_case.broken), "the error does not name ", random_case.broken, ": ", message);
    return;
  }
  bool named = false;
  for (const FieldInfo& field : op.cached_fields()) named = named || names(message, field.name);
  for (const ArrayInfo& array : op.describe_arrays({})) named = named || names(message, array.name);
  for (const std::string_view place : {"line", "program"}) named = named || names(message, place);
  findings.expect(named, "the error names no argument: ", message);
}

void check_arrays(const ParsedProblem& problem, Findings& findings) {
  for (const ArrayInfo& array : problem.array_view()) {
    findings.expect(array.shape.size() == array.strides.size(), array.name, " has other ranks of shape and strides");
    findings.expect(array.alignment >= size_of(array.dtype) && (array.alignment & (array.alignment - 1)) == 0, array.name,
                    " has an alignment of ", array.alignment);
    findings.expect(array.input || array.output, array.name, " is neither input nor output");
    findings.expect(array.elements() >= 0 && array.extent_bytes() >= 0, array.name, " has a negative size");
  }
  const std::vector<ArrayInfo> described = problem.op().describe_arrays(problem.problem().fields);
  std::vector<std::string> present, expected;
  for (const ArrayInfo& array : described)
    if (array.present) present.push_back(array.name);
  for (const ArrayInfo& array : problem.array_view()) expected.push_back(array.name);
  findings.expect(present == expected, "describe_arrays() has other arrays than the problem");
}

void check_forms(const ParsedProblem& problem, Findings& findings) {
  const Op& op = problem.op();
  const Problem& normal = problem.problem();
  const ParsedProblemPtr again = op.parse(normal);
  findings.expect(again->problem() == normal, "the normal form of the normal form differs: ", again->problem().text());
  const Fields read = parse_fields(normal.fields.text(), "fields");
  const ParsedProblemPtr parsed = op.parse({normal.op, read});
  findings.expect(parsed->problem() == normal, "the text of the normal form is another problem");
  const KeyParts key = problem.key(), key_again = again->key();
  findings.expect(key.problem_class == key_again.problem_class && key.n_cols == key_again.n_cols &&
                      key.rows_bucket == key_again.rows_bucket && key.related_class == key_again.related_class,
                  "the keys of equal problems differ");
  findings.expect(key.n_cols >= 0 && key.rows_bucket >= 0 && is_printable(key.problem_class), "the key is malformed");
  const Cost cost = problem.cost();
  findings.expect(cost.bytes_read >= 0 && cost.bytes_written >= 0 && cost.flops >= 0 && std::isfinite(cost.flops) &&
                      std::isfinite(cost.bytes()),
                  "the cost is ", cost.bytes_read, ", ", cost.bytes_written, ", ", cost.flops);
}

void check_configs(const ParsedProblem& problem, const DeviceInfo& device, const Config& config, Findings& findings) {
  const Config usual = problem.default_config(device);
  const auto valid = [&](const Config& each, const char* what) {
    const std::string reason = problem.why_invalid(device, each);
    findings.expect(reason.empty(), what, " ", each.text(), " is invalid: ", reason);
  };
  valid(usual, "the default configuration");
  valid(config, "the configuration");
  findings.expect(problem.complete_config(device, {}) == usual, "an empty configuration is not the default one");
  findings.expect(problem.complete_config(device, usual) == usual, "complete_config() changes ", usual.text());
  const std::vector<Config> quick = problem.search_space(device, Effort::quick);
  findings.expect(!quick.empty() && quick.front() == usual, "the search does not start with the default configuration");
  for (const Config& each : quick) valid(each, "a candidate,");
  // A record of another version must not crash.
  Config strange = usual;
  for (const auto& [name, value] : usual.fields)
    if (std::holds_alternative<std::int64_t>(value)) strange.fields.set(name, std::get<std::int64_t>(value) * -3 + 1);
  problem.why_invalid(device, strange);
  problem.why_invalid(device, Config());
  if (const std::optional<Config> capacity = problem.capacity_config(device)) valid(*capacity, "capacity_config()");
}

void check_sources(const ParsedProblem& problem, const DeviceInfo& device, const Config& config, std::uint64_t seed,
                   Findings& findings) {
  const std::string source = render(problem, config);
  findings.expect(!source.empty(), "the source is empty");
  const LaunchPlan plan = problem.launch_plan(config, device);
  findings.expect(plan.kernels.empty() || plan.pointers.size() == problem.array_view().size(), "the plan has ",
                  plan.pointers.size(), " pointers");
  std::set<std::uint32_t> places;
  for (const LaunchPlan::Pointer& pointer : plan.pointers)
    findings.expect(places.insert(pointer.offset).second && pointer.offset + sizeof(void*) <= plan.params.size(),
                    "the place of ", pointer.array, " in the parameters, ", pointer.offset, ", is another array's or none");
  for (const KernelLaunch& kernel : plan.kernels)
    findings.expect(kernel.grid.x > 0 && kernel.grid.y > 0 && kernel.grid.z > 0 && kernel.block.x > 0 &&
                        source.find(kernel.entry) != std::string::npos,
                    "the launch of ", kernel.entry, " is malformed");
  if (plan.kernels.empty()) return;  // there is nothing to verify
  const ParsedProblemPtr small = problem.op().parse(problem.verification_problem());
  if (const std::string reason = small->why_invalid(device, config); reason.empty())
    findings.expect(render(*small, config) == source, "the problem that verifies ", config.text(),
                    " has another source: ", small->problem().short_text());
  else
    findings.expect(false, "the problem that verifies the configuration cannot run it: ", reason);
  for (std::uint64_t i = 0; i < 8; ++i) {
    const ParsedProblemPtr other = draw_runtime_change(problem, mixed(seed, i), device);
    if (other == nullptr || !other->why_invalid(device, config).empty()) continue;
    findings.expect(same_code(problem.source_parts(config), other->source_parts(config)),
                    "a field that is not compiled in changes the source: ", other->problem().short_text());
  }
  const ParsedProblemPtr tuned = problem.op().parse(problem.tuned_as());
  findings.expect(tuned->key().problem_class == problem.key().problem_class, "tuned_as() has another key");
}

}  // namespace

bool same_code(const SourceParts& a, const SourceParts& b) {
  return a.includes == b.includes && a.constants == b.constants && a.kernels == b.kernels;
}

Checked check_description(const RandomCase& random_case, const DeviceInfo& device, bool sources) {
  Checked checked;
  Findings findings;
  try {
    const Op& op = find_op(random_case.problem.op);
    ParsedProblemPtr problem;
    try {
      problem = op.parse(random_case.problem);
    } catch (const Error& error) {
      check_rejection(random_case, error, findings);
      checked.failure = findings.text();
      return checked;
    }
    findings.expect(random_case.broken.empty(), "an invalid ", random_case.broken, " is accepted");
    check_arrays(*problem, findings);
    check_forms(*problem, findings);
    try {
      checked.config = problem->complete_config(device, random_case.config);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported || !random_case.config.fields.empty()) throw;
      check_rejection(random_case, error, findings);  // such as sums of very many columns
      checked.failure = findings.text();
      return checked;
    }
    check_configs(*problem, device, checked.config, findings);
    if (sources) check_sources(*problem, device, checked.config, random_case.seed, findings);
    if (findings.text().empty()) checked.problem = problem;
  } catch (const std::exception& error) {
    findings.expect(false, "a valid problem throws: ", error.what());
  }
  checked.failure = findings.text();
  return checked;
}

}  // namespace tunesmith::test
