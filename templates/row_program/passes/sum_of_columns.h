#pragma once
// Sums of values over columns, with factors that do not vary taken out of the sum. Internal to templates/.

#include <vector>

#include "templates/row_program/language/graph.h"

namespace tunesmith::row_program {

/// Returns the node of the sum of all values over the columns of a row, or of each group. A value counts once for each
/// element [row, col], even if it varies along fewer dimensions. A factor that does not vary is applied after the sum, which
/// saves
/// a stage if it depends on a reduction: sum(a / s) is sum(a) / s.
int sum_of_columns(Graph& graph, const std::vector<int>& values, bool grouped);

/// Returns the node of the sum over the groups of a row, of values that are one for each group.
int sum_of_groups(Graph& graph, int value, int group);

/// Returns a node that varies along the columns. Its sum over the columns of a row equals the sum of all elements of the
/// value: an output `colsum` of one element.
int terms_of_total(Graph& graph, int value, int group);

/// Returns the node of the number of columns of a row, or of each group, as f32.
int count_of_columns(Graph& graph, bool grouped);

}  // namespace tunesmith::row_program
