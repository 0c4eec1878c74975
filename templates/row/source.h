#pragma once
// Generates the constants of a row kernel. Internal to templates/.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "templates/op.h"
#include "templates/row/config.h"
#include "templates/row/own_params.h"

namespace tunesmith::row {

using FeatureTypes = std::vector<std::pair<std::string, std::string>>;

/// Returns "Types", "shape" with its RowFeatures (of all row kernels, and `more`) and, depending on the variant, "config",
/// "Group" and "Storage": the arguments of a kernel template. `definitions`: text in place of "Types".
std::string constants(const TypedConfig& config, const Shape& shape, const FeatureTypes& more = {},
                      const std::string& definitions = {});

/// Returns the extern "C" entry point `entry`, which calls tunesmith::`function`<`arguments`>(params) with
/// tunesmith::`params`. `staged`: rows that pass through shared memory; without any, its shape says so.
std::string kernel(const TypedConfig& config, const std::string& entry, const std::string& params,
                   const std::string& function, const std::string& arguments, const StagedRowsOf& staged = {});

/// Returns the minimum architecture of this configuration.
std::string min_arch(const TypedConfig& config, const Shape& shape);

/// Returns the lines that describe a source: columns, dtypes, options, alignment of rows.
std::vector<std::pair<std::string, std::string>> specialized_for(const Shape& shape);

/// Returns the templates of functions for double: kernels find overloads that their source includes first.
inline std::vector<std::string> overloads_for_double() { return {"device/double_exponential.cuh", "row/double.cuh"}; }

/// The kernels of an operation, by the naming convention of row kernels: FUNCTION_resident in FILES/resident.cuh (one read),
/// and FUNCTION_two_pass, FUNCTION_split_sums and FUNCTION_split in FILES/tiled.cuh (two reads). Their template arguments
/// are Types, shape and config; FUNCTION_resident also has Group and Storage.
struct Kernels {
  std::string files;                        ///< "copy/backward_" for copy/backward_resident.cuh
  std::string function;                     ///< "copy_backward"
  std::string steps;                        ///< the computation for a row, see describe()
  FeatureTypes features{};                  ///< of RowFeatures, in addition to all row kernels'
  std::string resident_and{};               ///< template arguments of FUNCTION_resident after those above: ", void"
  std::string types = "Types";              ///< first template argument
  std::string definitions{};                ///< text before the constants; empty: the struct Types
  std::optional<RowAddresses> addresses{};  ///< parameters with addresses of rows, if not addresses_of()
  std::vector<std::string> overloads{};     ///< included before FILES/...
  std::vector<std::string> for_double = overloads_for_double();  ///< likewise, by kernels of double
};

/// Returns Op::templates() of an operation over rows: its folder, and the overloads that its sources may include.
std::vector<std::string> templates(const std::string& folder);
/// Returns the overloads that a kernel of resident rows includes first in this configuration: for staged rows and clusters.
std::vector<std::string> overloads(const TypedConfig& config, const Shape& shape);

/// Returns the source of a row kernel with arguments of the type of `own`.
SourceParts source_parts(const TypedConfig& config, const Shape& shape, const std::string& entry, const Kernels& kernels,
                         const OwnParams& own = {});

/// Describes the algorithm of this configuration and its mapping of threads to rows. `steps`: the computation for a row,
/// e.g. "the maximum, the sum of exponentials and the result".
void describe(const TypedConfig& config, const Shape& shape, const std::string& steps, SourceParts& parts);

}  // namespace tunesmith::row
