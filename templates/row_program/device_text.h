#pragma once
// Device code for single values and reductions of a program. Internal to templates/.

#include <array>
#include <string>

#include "templates/row_program/program.h"

namespace tunesmith::row_program {

/// The device type of elements: "float", "bf16", "int".
std::string element_type(Type type);
/// The device type of values: "float", "int" or "bool".
std::string value_type_text(Type type);

/// A literal that is exactly this float.
std::string float_literal(double value);
/// The value of an Operation::constant.
std::string constant_text(const Node& of);
/// A value as a float.
std::string as_float(const std::string& text, Type type);
/// Drops brackets around a whole expression.
std::string bare(const std::string& text);

constexpr bool is_leaf(Operation operation) { return operation <= Operation::parameter; }

/// Calls a function other than a leaf, with the texts of its operands and their nodes.
std::string function_text(const Node& of, const std::array<std::string, 3>& operands,
                          const std::array<const Node*, 3>& nodes);

/// The struct of row_program/reductions.cuh: "SumOfColumns", "OwnReduction<Monoid0>". `precise`: an output [row, col] is
/// f32.
std::string reduction_type(const Reduction& reduction, bool precise);
/// Reports whether an output [row, col] is f32, so that exponentials need all of its digits.
bool is_precise(const Program& program);
/// Its function that gives a result (Node::part). Not for Reducer::custom, whose partial results are the results.
std::string result_function(const Reduction& reduction, int part);
/// Floats of its partial results.
int floats_of(const Reduction& reduction, const Program& program);

/// The struct of a user's monoid: "Monoid0".
std::string monoid_name(int monoid);
std::string monoid_definition(const Monoid& monoid, int index);

}  // namespace tunesmith::row_program
