#include "templates/row_program/language/canonical.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <vector>

#include "core/half_octave.h"
#include "core/hash.h"
#include "templates/row_program/evaluate/operations.h"
#include "templates/row_program/language/graph.h"

namespace tunesmith::row_program {
namespace {

std::string type_name(const std::optional<Type>& type) { return type ? std::string(enum_name(*type)) : "float"; }

std::string bits_of(double value) { return std::to_string(std::bit_cast<std::uint64_t>(value)); }

class Canonical {
 public:
  explicit Canonical(const Program& program)
      : program_(program), hashes_(program.nodes.size()), numbers_(program.nodes.size(), -1) {
    std::array<int, 6> counts{};
    for (const Input& input : program.inputs) input_names_.push_back(array_name(input, counts));
    // A result of a reduction follows the reduction's operands.
    for (std::size_t n = 0; n < hashes_.size(); ++n)
      hashes_[n] =
          hash_hex(node_text(program.nodes[n], [&](int operand) { return hashes_[static_cast<std::size_t>(operand)]; }));
  }

  std::string text() {
    for (const Output& output : program_.outputs) {
      const int value = number_of(output.node);
      all_ += std::string(output.sum_over_rows ? "colsum " : "out ") + type_name(output.type) +
              std::string(enum_name(output.kind)) + " v" + std::to_string(value) + "\n";
    }
    std::vector<std::string> inputs;
    for (std::size_t i = 0; i < input_names_.size(); ++i) inputs.push_back("in " + input_names_[i] + "\n");
    std::ranges::sort(inputs);
    std::string head = "group " + std::to_string(program_.group) + "\n";
    if (program_.top > 0) head += "top " + std::to_string(program_.top) + "\n";
    for (const std::string& input : inputs) head += input;
    for (const Number& number : program_.numbers) head += "num " + std::string(enum_name(number.type)) + "\n";
    return head + all_;
  }

 private:
  static std::string array_name(const Input& input, std::array<int, 6>& counts) {
    return std::string(enum_name(input.kind)) + std::to_string(counts[static_cast<std::size_t>(input.kind)]++) + " " +
           type_name(input.type);
  }

  template <typename Operand>
  std::string node_text(const Node& node, const Operand& operand_text) const {
    std::string text(enum_name(node.operation));
    text += " " + std::string(node.to_problem_dtype ? "float" : enum_name(node.type));
    switch (node.operation) {
      case Operation::constant: text += " " + bits_of(node.value); break;
      case Operation::input: return text + " " + input_names_[static_cast<std::size_t>(node.index)];
      case Operation::reduced:
        return text + " " + std::to_string(node.part) +
               reduction_text(program_.reductions[static_cast<std::size_t>(node.index)], operand_text);
      default: text += " " + std::to_string(node.index);
    }
    std::vector<std::pair<std::string, int>> operands;
    for (const int operand : node.operands)
      if (operand >= 0) operands.emplace_back(hashes_[static_cast<std::size_t>(operand)], operand);
    if (is_commutative(node.operation)) std::ranges::sort(operands);
    for (const auto& [hash, operand] : operands) text += " " + operand_text(operand);
    return text;
  }

  template <typename Operand>
  std::string reduction_text(const Reduction& reduction, const Operand& operand_text) const {
    std::string text = " " + std::string(enum_name(reduction.reducer)) + (reduction.grouped ? "[]" : "");
    for (const int operand : reduction.operands) text += " " + operand_text(operand);
    if (reduction.monoid >= 0)
      text += " {" + monoid_text(program_.monoids[static_cast<std::size_t>(reduction.monoid)]) + "}";
    return text;
  }

  static std::string monoid_text(const Monoid& monoid) {
    std::vector<std::string> hashes(monoid.nodes.size());
    for (std::size_t n = 0; n < hashes.size(); ++n) {
      const Node& node = monoid.nodes[n];
      std::vector<std::string> operands;
      for (const int operand : node.operands)
        if (operand >= 0) operands.push_back(hashes[static_cast<std::size_t>(operand)]);
      if (is_commutative(node.operation)) std::ranges::sort(operands);
      std::string text = std::string(enum_name(node.operation)) + " " + std::string(enum_name(node.type)) + " " +
                         std::to_string(node.index) + " " + bits_of(node.value);
      for (const std::string& operand : operands) text += " " + operand;
      hashes[n] = hash_hex(text);
    }
    std::string text;
    for (const int result : monoid.results) text += hashes[static_cast<std::size_t>(result)] + " ";
    for (const double value : monoid.identity) text += bits_of(value) + " ";
    return text;
  }

  /// Writes a node after its operands, in an order that follows from the hashes, and returns its number.
  int number_of(int node) {
    int& number = numbers_[static_cast<std::size_t>(node)];
    if (number >= 0) return number;
    const std::string text = node_text(program_.nodes[static_cast<std::size_t>(node)],
                                       [&](int operand) { return "v" + std::to_string(number_of(operand)); });
    number = next_++;
    all_ += "v" + std::to_string(number) + " = " + text + "\n";
    return number;
  }

  const Program& program_;
  std::vector<std::string> input_names_, hashes_;
  std::vector<int> numbers_;
  int next_ = 0;
  std::string all_;
};

bool is_special(Operation operation) {
  return (operation >= Operation::exp && operation <= Operation::sigmoid) || operation == Operation::divide ||
         operation == Operation::uniform;
}

}  // namespace

std::string canonical_text(const Program& program) { return Canonical(program).text(); }

std::string cost_class(const Program& program) {
  std::map<std::string, int> arrays;
  for (const Input& input : program.inputs) ++arrays["in " + type_name(input.type) + std::string(enum_name(input.kind))];
  for (const Output& output : program.outputs)
    ++arrays[std::string(output.sum_over_rows ? "colsum " : "out ") + type_name(output.type) +
             std::string(enum_name(output.kind))];
  std::string text;
  for (const auto& [name, count] : arrays) text += name + " x" + std::to_string(count) + ", ";
  std::int64_t operations = 0, special = 0, reduced = 0;
  for (const Node& node : program.nodes) {
    if (node.operation < Operation::negate || !varies_along_columns(node.kind)) continue;
    ++operations;
    if (is_special(node.operation)) ++special;
  }
  for (const Reduction& reduction : program.reductions) {
    reduced += static_cast<std::int64_t>(reduction.operands.size());
    if (reduction.reducer == Reducer::moments || reduction.reducer == Reducer::lse) reduced += 1;
  }
  return text + "stages " + std::to_string(program.stages) + ", reduced " + std::to_string(reduced) + ", operations " +
         std::to_string(half_octave(operations)) + ", special " + std::to_string(half_octave(special)) + ", group " +
         std::to_string(program.group) + (program.top > 0 ? ", top " + std::to_string(program.top) : "");
}

}  // namespace tunesmith::row_program
