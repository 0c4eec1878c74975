// The programs of the kernel tests use the whole language: every operation, function, reduction, type and kind occurs in
// one of them.

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <vector>

#include "templates/row_program/language/functions.h"
#include "templates/row_program/language/parse.h"
#include "tests/templates/row_program/f64_cases.h"

namespace tunesmith {
namespace {

using namespace row_program;

template <typename Enum>
void expect_all(const std::set<Enum>& found, const std::set<Enum>& never, const char* what) {
  for (std::size_t i = 0; i < enum_names<Enum>.size(); ++i)
    if (const auto value = static_cast<Enum>(i); !never.contains(value)) {
      EXPECT_TRUE(found.contains(value)) << "no program has " << what << " " << enum_names<Enum>[i];
    }
}

TEST(RowProgramCoverage, KernelTestsUseTheWholeLanguage) {
  std::set<Operation> operations;
  std::set<Reducer> reducers, reducers_of_groups, reducers_of_chosen;
  std::set<Type> full_inputs, full_outputs, rounded_to;
  std::set<Kind> inputs, outputs;
  std::set<std::string> texts;
  std::vector<test::NamedProgram> programs = test::row_programs();
  programs.insert(programs.end(), test::f64_row_programs().begin(), test::f64_row_programs().end());
  for (const test::NamedProgram& named : programs) {
    texts.insert(named.text);
    const Program program = with_dtype(parse(named.text), Type::f32);
    for (const Node& node : program.nodes) {
      operations.insert(node.operation);
      if (node.operation == Operation::round_to) rounded_to.insert(node.type);
    }
    for (const row_program::Reduction& reduction : program.reductions)
      (reduction.of_top ? reducers_of_chosen : reduction.grouped ? reducers_of_groups : reducers).insert(reduction.reducer);
    for (const Monoid& monoid : program.monoids)
      for (const Node& node : monoid.nodes) operations.insert(node.operation);
    for (const Input& input : program.inputs) {
      inputs.insert(input.kind);
      if (input.kind == Kind::full) full_inputs.insert(*input.type);
    }
    for (const row_program::Output& output : program.outputs) {
      outputs.insert(output.kind);
      if (output.kind == Kind::full) full_outputs.insert(*output.type);
    }
  }
  expect_all(operations, {}, "the operation");
  expect_all(reducers, {}, "the reduction");
  expect_all(reducers_of_groups, {Reducer::topk}, "for groups the reduction");
  expect_all(reducers_of_chosen, {Reducer::topk}, "of chosen columns the reduction");
  expect_all(full_inputs, {}, "an input [row, col] of the type");
  expect_all(full_outputs, {}, "an output [row, col] of the type");
  expect_all(rounded_to, {Type::f64, Type::boolean}, "a conversion to");  // f64 is f32, the type of arithmetic
  expect_all(inputs, {}, "an input of the kind");
  expect_all(outputs, {}, "an output of the kind");  // [col], []: colsum
  const auto called = [&](const std::string& call) {
    for (const std::string& text : texts)
      if (text.find(call) != std::string::npos) return true;
    return false;
  };
  for (const Function& function : functions()) {
    const std::string call = std::string(function.name) + "(";
    EXPECT_TRUE(called(" " + call) || called("(" + call)) << "no program calls " << function.name;
  }
}

}  // namespace
}  // namespace tunesmith
