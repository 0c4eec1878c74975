#pragma once
// The constants of a generated row kernel as text. Internal to templates/.

#include <string>
#include <utility>
#include <vector>

#include "templates/op.h"
#include "templates/row/config.h"
#include "templates/row/own_params.h"

namespace tunesmith::row {

using FeatureTypes = std::vector<std::pair<std::string, std::string>>;

/// "Types", "shape" with its RowFeatures (those of all row kernels and `more`) and, where the variant has them, "config",
/// "Group" and "Storage": what a kernel template is instantiated with.
std::string constants(const TypedConfig& config, const Shape& shape, const FeatureTypes& more = {});

/// extern "C" entry point `entry` that calls tunesmith::`function`<`arguments`>(params) with tunesmith::`params`.
std::string kernel(const TypedConfig& config, const std::string& entry, const std::string& params,
                   const std::string& function, const std::string& arguments);

/// The first architecture that has what this configuration uses.
std::string least_arch(const TypedConfig& config, const Shape& shape);

/// What the source says of itself: columns, dtypes, options, where rows may start.
std::vector<std::pair<std::string, std::string>> specialized_for(const Shape& shape);

/// The kernels of an operation by the names that all row kernels have: FUNCTION_resident in FILES/resident.cuh (one read),
/// and FUNCTION_two_pass, FUNCTION_split_sums and FUNCTION_split in FILES/tiled.cuh (two reads). Their template arguments
/// are Types, shape and config; those of FUNCTION_resident also Group and Storage.
struct Kernels {
  std::string files;           ///< "softmax/backward_" for softmax/backward_resident.cuh
  std::string function;        ///< "softmax_backward"
  std::string steps;           ///< what they compute of a row: see describe()
  FeatureTypes features{};     ///< of RowFeatures, in addition to those of all row kernels
  std::string resident_and{};  ///< template arguments of FUNCTION_resident after those above: ", void"
  std::string specialized{};   ///< what else they are specialized for: ", weights of bf16"
};

/// The source of a row kernel, whose arguments are of the type of `own`.
SourceParts source_parts(const TypedConfig& config, const Shape& shape, const std::string& entry, const Kernels& kernels,
                         const OwnParams& own = {});

/// Fills in what a kernel does in this configuration and how threads map to rows. `steps`: what it computes of a row, such
/// as "the maximum, the sum of exponentials and the result".
void describe(const TypedConfig& config, const Shape& shape, const std::string& steps, SourceParts& parts);

}  // namespace tunesmith::row
