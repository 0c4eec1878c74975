#pragma once
// Copies the nodes of a program to another graph. Internal to templates/.

#include <optional>
#include <vector>

#include "templates/row_program/language/graph.h"

namespace tunesmith::row_program {

/// Copies one node, whose operands have been copied. The copy gets `operands` and `reduction`.
int copy_node(const Node& node, const std::array<int, 3>& operands, int reduction, std::optional<Type> dtype, Graph& graph);

/// Copies all nodes and reductions and returns the copies' indices. With a dtype, conversions to the problem's dtype get it.
std::vector<int> copy_nodes(const Program& program, std::optional<Type> dtype, Graph& graph);

}  // namespace tunesmith::row_program
