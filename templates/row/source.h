#pragma once
// Generates the constants of a row kernel. Internal to templates/.

#include <string>
#include <utility>
#include <vector>

#include "templates/op.h"
#include "templates/row/config.h"

namespace tunesmith::row {

using FeatureTypes = std::vector<std::pair<std::string, std::string>>;

/// Returns "Types", "shape" with its RowFeatures (those of all row kernels and `more`) and, depending on the variant,
/// "config", "Group" and "Storage": the arguments of a kernel template.
std::string constants(const TypedConfig& config, const Shape& shape, const FeatureTypes& more = {});

/// Returns the extern "C" entry point `entry`, which calls tunesmith::`function`<`arguments`>(params) with
/// tunesmith::`params`.
std::string kernel(const TypedConfig& config, const std::string& entry, const std::string& params,
                   const std::string& function, const std::string& arguments);

/// Returns the minimum architecture of this configuration.
std::string least_arch(const TypedConfig& config, const Shape& shape);

/// Returns the lines that describe a source: columns, dtypes, options, alignment of rows.
std::vector<std::pair<std::string, std::string>> specialized_for(const Shape& shape);

/// Describes the algorithm of this configuration and its mapping of threads to rows. `steps`: what it computes for a row,
/// e.g. "the maximum, the sum of exponentials and the result".
void describe(const TypedConfig& config, const Shape& shape, const std::string& steps, SourceParts& parts);

}  // namespace tunesmith::row
