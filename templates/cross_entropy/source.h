#pragma once
// Pieces of generated sources and of launches that all kernels of the cross-entropy family share. Internal to templates/.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/launch.h"
#include "templates/cross_entropy/problem.h"

namespace tunesmith::cross_entropy {

/// Returns the size of StoredPartial in cross_entropy/outcome.cuh, with every option.
inline std::int64_t stored_partial_bytes(const Settings& settings) { return 6 * size_of(settings.number()); }

/// Returns the definition of TargetType.
std::string target_type_of(const Settings& settings);
/// Returns the definition of `options`.
std::string options_text(const Settings& settings);
/// Returns the type of the kernels' parameters.
std::string params_type(const Settings& settings);
/// Returns the assertion of their size.
std::string size_check(const Settings& settings);
/// Returns SourceParts::includes: overloads for double, if logits are of f64, and others, before "cross_entropy/<name>.cuh".
std::vector<std::string> includes_of(const Settings& settings, const std::string& name,
                                     std::span<const std::string> overloads = {});
/// Returns the entry points of the reductions over rows. `name`: of the operation.
std::string totals_kernels(const Settings& settings, const std::string& name);
/// Returns the line on what a source is specialized for, beyond its shape.
std::string what_for(const Settings& settings);

/// Returns the offset of an array's address in the kernels' parameters. Throws Error(unsupported) for unknown names.
std::uint32_t pointer_offset(std::string_view array, const Settings& settings);

/// Completes the plan of a row kernel, whose parameters are RowParams. Adds the parameters of cross-entropy, the addresses
/// of all arrays, and the launches of the reductions over rows.
void complete_plan(const Settings& settings, const std::string& entry, std::span<const ArrayInfo> arrays,
                   const DeviceInfo& device, LaunchPlan& plan);

}  // namespace tunesmith::cross_entropy
