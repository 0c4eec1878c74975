#pragma once
// The functions that a program can call, and their expansion to operations. Internal to templates/.

#include <span>
#include <string_view>
#include <vector>

#include "templates/row_program/language/graph.h"

namespace tunesmith::row_program {

/// A function of numbers, other than casts, select and uniform.
struct Function {
  std::string_view name;
  std::size_t arguments;
  int (*make)(Graph& graph, std::span<const int> arguments);
};

/// Returns all functions.
std::span<const Function> functions();
/// Returns the function of this name, or nullptr.
const Function* find_function(std::string_view name);

}  // namespace tunesmith::row_program
