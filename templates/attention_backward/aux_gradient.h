#pragma once
// Gradients of the arrays that score_mod reads: the place of their kernels in generated sources and launches, and their
// reference. Internal to templates/.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "templates/attention/reference/reference.h"
#include "templates/attention/source/modification.h"
#include "templates/attention_backward/aux_params.cuh"
#include "templates/attention_backward/search/config.h"

namespace tunesmith::attention_backward {

/// Numbers the elements of all arrays with gradients, array by array.
struct AuxElements {
  std::array<std::int64_t, attention::max_aux> first{}, lengths{};  ///< of settings.forward.aux; length 0: no gradient
  std::int64_t all = 0;

  explicit AuxElements(const Settings& settings);
};

/// Returns the names of the arrays of aux with gradients.
std::vector<std::string> differentiated_arrays(const Settings& settings);

/// Returns the kernel on tensor cores, for variants that have them.
MmaPass aux_pass(const Settings& settings);
/// Returns the dynamic shared memory of the kernel that finds the terms.
std::int64_t aux_smem_bytes(const TypedConfig& config, const Settings& settings);

/// Returns the constants of its configuration; empty without gradients of arrays.
std::string aux_config_text(const TypedConfig& config, const Settings& settings);
/// Returns the entry points, the one that evaluates derivatives alone included. `common`: AttentionBackwardParams of their
/// argument.
std::string aux_entries(const TypedConfig& config, const Settings& settings, const std::string& common);

/// Returns the parameters, for a workspace whose part for the sums begins at `sums_at`.
AuxGradients aux_parameters(const Settings& settings, std::int64_t sums_at);
/// Returns the bytes of that part.
std::int64_t aux_workspace_bytes(const Settings& settings);
/// Adds the launches. `pairs`: whether there are any pairs of queries and keys.
void add_aux_launches(const TypedConfig& config, const Settings& settings, bool pairs, std::vector<KernelLaunch>& kernels);

/// The derivative of a score by an element that score_mod reads.
struct AuxDerivative {
  std::int64_t element = 0;
  attention::Rounded derivative;
};
/// Returns the derivatives of each score of the queries. Evaluates them on the device, also at both ends of each score's
/// rounding to bound the error. Not thread-safe.
std::vector<std::vector<std::vector<AuxDerivative>>> aux_derivatives(const Settings& settings,
                                                                     std::span<const HostArray> arrays,
                                                                     const Evaluate& evaluate,
                                                                     std::span<const attention::Reference::Query> queries);

}  // namespace tunesmith::attention_backward
