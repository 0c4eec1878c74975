#pragma once
// Generates sources and launches of kernels over a strided dimension. Internal to templates/.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "templates/op.h"
#include "templates/row/own_params.h"
#include "templates/strided/config.h"

namespace tunesmith::strided {

/// Returns the members of StridedParams after `row`.
row::OwnParams own_params(const Shape& shape);
/// Returns StridedParams without addresses.
std::vector<std::byte> params_of(const Shape& shape);

/// Returns "Types", "shape" with its RowFeatures, and "config": the arguments of a kernel template.
std::string constants(const TypedConfig& config, const Shape& shape,
                      const std::vector<std::pair<std::string, std::string>>& features);

/// Returns the extern "C" entry point `entry`, which calls tunesmith::`call`(params) with tunesmith::`params`.
std::string kernel(std::int64_t threads, std::int64_t min_blocks, const std::string& entry, const std::string& params,
                   const std::string& call);

/// Returns the minimum architecture of this configuration.
std::string min_arch(const TypedConfig& config);

/// Returns the lines that describe a source: columns, dtypes, options, strides.
std::vector<std::pair<std::string, std::string>> specialized_for(const Shape& shape);

/// Describes the algorithm of this configuration and its mapping of threads. `steps`: the computation while a row is
/// resident, e.g. "the maximum, the sum of exponentials and the result".
void describe(const TypedConfig& config, const Shape& shape, const std::string& steps, SourceParts& parts);

/// Adds the launches of a configuration, of `entry` and for split before it of sums_entries(), and its workspace.
void add_kernels(const TypedConfig& config, const Shape& shape, const std::string& entry, LaunchPlan& plan);
/// Returns the entry points of split that write partials: one for each stage of reductions.
std::vector<std::string> sums_entries(const Shape& shape, const std::string& entry);

/// Changes a problem to about a million elements, with at least `least` positions, and a number that no block size divides.
void set_few_positions(Problem& problem, const Shape& shape, std::int64_t least);

}  // namespace tunesmith::strided
