#pragma once
// Device code for single values and reductions of a program. Internal to templates/.

#include <array>
#include <string>

#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// The device type of elements: "float", "bf16", "int"; booleans are "i8".
std::string element_type(Type type);
/// `wide`, here and below: the program computes in f64 (computes_in_f64()).
/// The device type of numbers: "float" or "double".
std::string number_type(bool wide);
/// The device type that divides numbers by one number many times, which is never below `lower_bound`: "Divisor",
/// "NormalDivisor" or "DoubleDivisor".
std::string divisor_type(double lower_bound, bool wide);
/// The device type of values: "float", "double", "int" or "bool".
std::string value_type_text(Type type, bool wide);

/// A literal that is exactly this float or double.
std::string number_literal(double value, bool wide);
/// The value of an Operation::constant.
std::string constant_text(const Node& of, bool wide);
/// An element of an array as a value of the program: booleans are numbers in vectors, and i32 hidden in them.
std::string as_value(const std::string& element, Type type, bool wide);
/// A value as an element of a vector that is stored with this type.
std::string as_element(const std::string& text, Type type, Type stored, bool wide);
/// A value as a number.
std::string as_number(const std::string& text, Type type, bool wide);
/// Drops brackets around a whole expression.
std::string bare(const std::string& text);

constexpr bool is_leaf(Operation operation) { return operation <= Operation::parameter; }

/// Calls a function other than a leaf, with the texts of its operands and their nodes.
std::string function_text(const Node& of, const std::array<std::string, 3>& operands,
                          const std::array<const Node*, 3>& nodes, bool wide);

/// Returns the device type of a reduction: "SumOfColumns", "CustomReduction<Monoid0>". `precise`: an output [row, col] is
/// f32.
std::string reduction_type(const Reduction& reduction, bool precise);
/// Reports whether an output [row, col] is f32, so that exponentials need all of its digits; false in programs that compute
/// in f64, whose exponentials have more.
bool is_precise(const Program& program);
/// Its function that gives a result (Node::part). Not for Reducer::custom, whose partial results are the results.
std::string result_function(const Reduction& reduction, int part);
/// Floats of its partial results.
int floats_of(const Reduction& reduction, const Program& program);

/// The struct of a user's monoid: "Monoid0".
std::string monoid_name(int monoid);
std::string monoid_definition(const Monoid& monoid, int index, bool wide);

}  // namespace tunesmith::row_program
