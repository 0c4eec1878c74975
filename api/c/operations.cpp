#include "api/c/operations.h"

#include <algorithm>

#include "api/engine/in_order.h"
#include "api/engine/parts.h"
#include "api/engine/plan_state.h"
#include "api/linear_cross_entropy/description.h"
#include "templates/op.h"
#include "templates/row_program/shipped_op.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

constexpr std::string_view linear_name = "linear_cross_entropy";

bool is_linear(std::string_view op) { return op == linear_name; }

Description linear_description(const LinearCrossEntropyProblem& problem) {
  return Description([&](Description& description) { describe_linear_fields(problem, description); });
}

LinearCrossEntropyProblem read_linear(const Problem& problem) {
  LinearCrossEntropyProblem linear;
  linear_description(linear).read(linear_name, problem.fields);
  const Description description = linear_description(linear);
  description.check(problem.fields);
  return linear;
}

std::string text_of(const LinearCrossEntropyProblem& linear) {
  const LinearCrossEntropyProblem defaults;
  const Fields fields = linear_description(linear).normal_form(linear_description(defaults));
  return Problem{std::string(linear_name), fields}.text();
}

/// Describes the fields, which name the extents, and the arrays; returns what `read` reads from the description.
auto with_linear_arrays(const LinearCrossEntropyProblem& linear, std::int64_t workspace_bytes, const auto& read) {
  const LinearCrossEntropyArrays none;
  const Description description([&](Description& all) {
    describe_linear_fields(linear, all);
    describe_linear_arrays(linear, none, workspace_bytes, all);
  });
  return read(description);
}

std::vector<ArrayInfo> arrays_of(const LinearCrossEntropyProblem& linear, std::int64_t workspace_bytes) {
  return with_linear_arrays(linear, workspace_bytes, [](const Description& all) { return all.array_infos(); });
}

/// Writes addresses in launch order to the members of LinearCrossEntropyArrays.
class ArrayWriter {
 public:
  explicit ArrayWriter(std::span<void* const> addresses) : addresses_(addresses) {}

  static void field(std::string_view, const auto&, const FieldFacts&) noexcept {}
  static void option(std::string_view, const auto&, const FieldFacts&) noexcept {}
  template <typename Address>
  void array(Address& member, const ArrayFacts& facts) noexcept {
    if constexpr (!std::is_const_v<Address>)
      if (facts.present) member = static_cast<Address>(addresses_[count_++]);
  }

 private:
  std::span<void* const> addresses_;
  std::size_t count_ = 0;
};

}  // namespace

const std::vector<std::string>& operation_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Op* op : all_ops())
      if (!op->is_internal()) all.emplace_back(op->name());
    all.emplace_back(linear_name);
    return all;
  }();
  return names;
}

void require_operation(const std::string& name) {
  const std::vector<std::string>& names = operation_names();
  if (std::ranges::find(names, name) != names.end()) return;
  for (const std::span<const Op* const> ops : {all_ops(), shipped_program_ops()})  // also internal ones
    if (std::ranges::find(ops, name, &Op::name) != ops.end()) return;
  std::string known;
  for (const std::string& each : names) known += (known.empty() ? "" : ", ") + each;
  throw Error(ErrorCode::invalid_argument, "op is '", name, "'; allowed: ", known,
              ", and shipped row programs such as layer_norm");
}

std::vector<FieldInfo> operation_fields(const std::string& name) {
  const LinearCrossEntropyProblem defaults;
  return is_linear(name) ? linear_description(defaults).field_infos() : find_op(name).problem_fields();
}

std::string operation_summary(const std::string& name) {
  if (is_linear(name)) return "loss of logits = hidden weight^T + bias without storing the logits, and its gradients";
  return std::string(find_op(name).summary());
}

std::vector<ArrayInfo> operation_arrays(const std::string& name, const Fields& known) {
  if (!is_linear(name)) return find_op(name).describe_arrays(known);
  LinearCrossEntropyProblem linear;
  linear_description(linear).read_known(known);
  return with_linear_arrays(linear, 0, [](const Description& all) { return all.array_infos(true); });
}

Fields infer_operation_fields(const std::string& name, const Fields& known, const std::string& array,
                              std::span<const std::int64_t> shape) {
  if (!is_linear(name)) return find_op(name).infer_fields(known, array, shape);
  LinearCrossEntropyProblem linear;
  linear_description(linear).read_known(known);
  return with_linear_arrays(linear, 0, [&](const Description& all) { return all.infer(array, shape); });
}

CheckedProblem check_problem(const Problem& problem) {
  if (is_linear(problem.op)) {
    const LinearCrossEntropyProblem linear = read_linear(problem);
    return {text_of(linear), arrays_of(linear, 0)};
  }
  const ParsedProblemPtr parsed = find_op(problem.op).parse(problem);
  return {parsed->problem().text(), parsed->arrays()};
}

Prepared Prepared::make(Engine& engine, const Problem& problem, const PrepareOptions& options, Stream stream) {
  if (!is_linear(problem.op)) return Prepared(engine.prepare(problem, options, stream));
  if (engine.parts().device->is_capturing(stream))
    throw Error(ErrorCode::capturing, linear_name,
                " cannot be prepared during a stream capture; call tunesmith_prepare before it");
  return Prepared(LinearCrossEntropy(engine, read_linear(problem), options));
}

void Prepared::launch(std::span<void* const> addresses, Stream stream) const {
  if (!linear_) return plan_.launch(addresses, stream);
  const std::size_t expected = arrays().size();
  if (addresses.size() != expected)
    throw Error(ErrorCode::invalid_argument, "got ", addresses.size(), " arrays; the operation takes ", expected);
  LinearCrossEntropyArrays arrays;
  ArrayWriter writer(addresses);
  describe_linear_arrays(linear_->problem(), arrays, 0, writer);
  linear_->launch(arrays, stream);
}

void Prepared::launch(std::span<const NamedArray> arrays, Stream stream) const {
  if (!linear_) return plan_.launch(arrays, stream);
  launch(in_order(this->arrays(), arrays), stream);
}

std::string Prepared::text() const {
  if (!linear_) return plan_.problem().text();
  LinearCrossEntropyProblem linear = linear_->problem();
  linear.chunk_tokens = linear_->chunk_tokens();
  return text_of(linear);
}

std::vector<ArrayInfo> Prepared::arrays() const {
  if (linear_) return arrays_of(linear_->problem(), static_cast<std::int64_t>(linear_->workspace_bytes()));
  const std::span<const ArrayInfo> infos = plan_.arrays();
  return {infos.begin(), infos.end()};
}

std::size_t Prepared::workspace_bytes() const noexcept {
  if (linear_) return linear_->workspace_bytes();
  return static_cast<std::size_t>(plan_.state().executable->plan().workspace_bytes);
}

}  // namespace tunesmith
