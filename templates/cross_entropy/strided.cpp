// cross_entropy and its gradient over a strided dimension: configurations, sources and launches.

#include "templates/cross_entropy/strided.h"

#include <cstring>

#include "templates/cross_entropy/position_tiles.h"
#include "templates/cross_entropy/source.h"
#include "templates/row/params.cuh"
#include "templates/strided/source.h"

namespace tunesmith {

using namespace cross_entropy;

namespace {

/// Positions for all edge cases of the inputs.
constexpr std::int64_t min_positions = 33;

}  // namespace

KeyParts ParsedStridedCrossEntropy::key() const {
  KeyParts parts;
  parts.problem_class = settings_.problem_class();
  parts.n_cols = shape().cols;
  parts.rows_bucket = shape().rows_bucket();
  return parts;
}

Cost ParsedStridedCrossEntropy::cost() const { return cost_of(settings_, array_view()); }

StridedLossConfig ParsedStridedCrossEntropy::read(const Config& config) const {
  if (is_backward()) return {PositionTiles::parse(config)};
  return {strided::TypedConfig::parse(config)};
}

StridedLossConfig ParsedStridedCrossEntropy::default_of(const DeviceInfo& device) const {
  if (is_backward()) return {default_position_tiles(shape(), device)};
  return {strided::default_config(shape(), device)};
}

Config ParsedStridedCrossEntropy::complete_config(const DeviceInfo& device, const Config& partial) const {
  return is_backward() ? complete_position_tiles(partial, shape(), device)
                       : strided::complete_config(partial, shape(), device);
}

std::vector<Config> ParsedStridedCrossEntropy::search_space(const DeviceInfo& device, Effort effort) const {
  return is_backward() ? position_tiles_space(shape(), device, effort) : strided::search_space(shape(), device, effort);
}

std::string ParsedStridedCrossEntropy::why_invalid_of(const DeviceInfo& device, const StridedLossConfig& config) const {
  if (const auto* const tiles = std::get_if<PositionTiles>(&config.kind))
    return cross_entropy::why_invalid(*tiles, shape(), device);
  return strided::why_invalid(std::get<strided::TypedConfig>(config.kind), shape(), device);
}

SourceParts ParsedStridedCrossEntropy::parts_of(const StridedLossConfig& config) const {
  const std::string entry(op().name());
  const auto* const tiles = std::get_if<PositionTiles>(&config.kind);
  const strided::TypedConfig typed =
      tiles != nullptr ? tiles->as_slices(shape()) : std::get<strided::TypedConfig>(config.kind);
  SourceParts parts;
  parts.specialized_for = strided::specialized_for(shape());
  parts.specialized_for.emplace_back("loss", what_for(settings_));
  strided::describe(typed, shape(),
                    std::string("the maximum logit, the sum of exponentials without the target's, and the loss") +
                        (settings_.has_gradient() ? " with its gradient" : ""),
                    parts);
  parts.min_arch = strided::min_arch(typed);
  parts.constants = strided::constants(typed, shape(), {}) + strided::own_params(shape()).assertions() + "\n" +
                    target_type_of(settings_) + options_text(settings_) + size_check(settings_);
  const auto kernel = [&](const std::string& name, const std::string& function) {
    return strided::kernel(typed.threads, typed.min_blocks, name, params_type(settings_),
                           function + "<Types, TargetType, shape, options, config>");
  };
  if (is_backward()) {
    parts.algorithm = "one read and one write: dlogits elementwise from the lse of each position";
    parts.includes = includes_of(settings_, "strided_backward");
    parts.kernel = "cross_entropy_backward_strided";
  } else {
    parts.includes = includes_of(settings_, "strided");
    const bool split = typed.variant == strided::Variant::split;
    if (split) parts.kernels = kernel(entry + "_sums", "cross_entropy_strided_split_sums") + "\n";
    parts.kernel = split                 ? "cross_entropy_strided_split"
                   : typed.reads_twice() ? "cross_entropy_strided_two_pass"
                                         : "cross_entropy_strided_resident";
  }
  parts.kernels += kernel(entry, parts.kernel);
  parts.kernels += totals_kernels(settings_, entry);
  return parts;
}

LaunchPlan ParsedStridedCrossEntropy::plan_of(const StridedLossConfig& config, const DeviceInfo& device) const {
  const std::string entry(op().name());
  LaunchPlan plan;
  RowParams row{};
  row.rows = settings_.shape.rows;
  row.cols = static_cast<std::int32_t>(shape().cols);
  row.groups = 1;
  plan.params.resize(sizeof row);
  std::memcpy(plan.params.data(), &row, sizeof row);
  if (const auto* const tiles = std::get_if<PositionTiles>(&config.kind))
    plan.kernels = tiles->launches(shape(), entry);
  else
    strided::add_kernels(std::get<strided::TypedConfig>(config.kind), shape(), entry, plan);
  complete_plan(settings_, entry, array_view(), device, plan);
  return plan;
}

Problem ParsedStridedCrossEntropy::verification_problem() const {
  Problem small = problem();
  strided::set_few_positions(small, shape(), min_positions);
  return small;
}

void ParsedStridedCrossEntropy::fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const {
  cross_entropy::fill_inputs(settings_, seed, kind, arrays);
}

CheckResult ParsedStridedCrossEntropy::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  return cross_entropy::check(settings_, arrays, max_rows);
}

}  // namespace tunesmith
