#pragma once
// Values that replace the inputs of a row on the chip, so that the outputs need not compute them again. Internal to
// templates/.

#include <set>
#include <vector>

#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Arrays that functions of columns read.
struct Needs {
  unsigned inputs = 0, columns = 0;  ///< positions among the inputs [row, col] and [col], as bits
  int groups = 0;                    ///< the last stage of values [row, col/N]
};

/// Returns what nodes read, nodes of groups included; `kept` are read as they are.
Needs needs_of(const Program& program, const std::vector<int>& nodes, const std::set<int>& kept = {});
/// Returns what a pass reads: the reductions of a stage, or, after the last one, the outputs.
Needs needs_of_pass(const Program& program, int pass, const std::set<int>& kept = {});

/// Returns values of the last stage of reductions that, together with values of the row, determine the outputs: at most one
/// for each input [row, col]. Empty if there are none, or if they cost little.
std::vector<int> kept_nodes(const Program& program);

}  // namespace tunesmith::row_program
