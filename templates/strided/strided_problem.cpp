#include "templates/strided/strided_problem.h"

#include <cstddef>

#include "templates/row/launch.h"
#include "templates/row/params.cuh"
#include "templates/strided/source.h"
#include "tunesmith/error.h"

namespace tunesmith::strided {
namespace {

std::string kernel_of(const TypedConfig& config, const std::string& entry, const std::string& function) {
  return kernel(config.threads, config.min_blocks, entry, "StridedParams", function + "<Types, shape, config>");
}

}  // namespace

KeyParts StridedProblem::key() const {
  KeyParts parts;
  parts.problem_class = shape_.problem_class();
  parts.n_cols = shape_.cols;
  parts.rows_bucket = shape_.rows_bucket();
  return parts;
}

TypedConfig StridedProblem::default_of(const DeviceInfo& device) const { return strided::default_config(shape_, device); }

Config StridedProblem::complete_config(const DeviceInfo& device, const Config& partial) const {
  if (partial.fields.empty()) return default_config(device);  // which reports whether there is one
  return strided::complete_config(partial, shape_, device);
}

std::vector<Config> StridedProblem::search_space(const DeviceInfo& device, Effort effort) const {
  return strided::search_space(shape_, device, effort);
}

std::string StridedProblem::why_invalid_of(const DeviceInfo& device, const TypedConfig& config) const {
  return strided::why_invalid(config, shape_, device);
}

SourceParts StridedProblem::parts_of(const TypedConfig& typed) const {
  const Kernels named = kernels();
  SourceParts parts;
  if (shape_.wide()) parts.includes = named.for_double;
  parts.includes.insert(parts.includes.end(), named.overloads.begin(), named.overloads.end());
  parts.includes.push_back(named.file);
  parts.specialized_for = specialized_for(shape_);
  describe(typed, shape_, named.steps, parts);
  parts.min_arch = min_arch(typed);
  parts.constants = constants(typed, shape_, named.features) + own_params(shape_).assertions();
  const std::string entry(op().name());
  const bool split = typed.variant == Variant::split;
  if (split) parts.kernels = kernel_of(typed, entry + "_sums", named.function + "_split_sums") + "\n";
  parts.kernel = named.function + (split ? "_split" : typed.reads_twice() ? "_two_pass" : "_resident");
  parts.kernels += kernel_of(typed, entry, parts.kernel);
  return parts;
}

LaunchPlan StridedProblem::plan_of(const TypedConfig& typed, const DeviceInfo&) const {
  LaunchPlan plan;
  const std::span<const ArrayInfo> arrays = array_view();
  for (std::size_t i = 0; i < arrays.size(); ++i)
    plan.pointers.push_back({arrays[i].name, row::offset_of_rows(arrays[i], i),
                             static_cast<std::uint32_t>(arrays[i].alignment), arrays[i].extent_bytes(), arrays[i].output,
                             false, arrays[i].in_place_of.empty() ? -1 : 0});
  plan.workspace_offset = offsetof(RowParams, workspace);
  plan.params = params_of(shape_);
  add_kernels(typed, shape_, std::string(op().name()), plan);
  return plan;
}

Problem StridedProblem::verification_problem() const {
  Problem small = problem();
  set_few_positions(small, shape_, 16);
  return small;
}

}  // namespace tunesmith::strided
