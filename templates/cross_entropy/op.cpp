#include "templates/cross_entropy/op.h"

#include <algorithm>

#include "templates/cross_entropy/config.h"
#include "templates/cross_entropy/strided.h"
#include "templates/row/config.h"
#include "templates/row/row_problem.h"
#include "tunesmith/error.h"

namespace tunesmith {

using namespace cross_entropy;

namespace {

/// Combining shards has one configuration: one thread per row, in blocks of this size.

}  // namespace

std::string_view summary_of(const CrossEntropyProblem&) noexcept {
  return "loss[r] = lse(logits[r,:]) - logits[r,targets[r]], and optionally its gradient in the same pass";
}
std::string_view summary_of(const CrossEntropyBackwardProblem&) noexcept {
  return "dlogits[r,:] = dloss[r] * (exp(logits[r,:] - lse[r]) - one_hot(targets[r]))";
}
std::string_view summary_of(const CrossEntropyShardProblem&) noexcept {
  return "partials[r,:] of a loss whose vocabulary is spread over devices";
}
std::string_view summary_of(const CrossEntropyCombineProblem&) noexcept {
  return "loss[r] from partials[:,r,:] of all shards of the vocabulary";
}

std::vector<FieldInfo> config_fields_of(const CrossEntropyProblem&) { return row::config_field_infos(); }
std::vector<FieldInfo> config_fields_of(const CrossEntropyBackwardProblem&) { return tile_config_fields(); }
std::vector<FieldInfo> config_fields_of(const CrossEntropyShardProblem&) { return row::config_field_infos(); }
std::vector<FieldInfo> config_fields_of(const CrossEntropyCombineProblem&) {
  return {{"variant", "the kernel; there is one", "", {"rows"}}, {"threads", "threads per block: 128", "", {}}};
}

namespace {

template <typename Typed>
ParsedProblemPtr parsed(const Op& op, const Typed& problem) {
  if constexpr (requires { problem.strided(); }) {
    if (problem.strided()) return std::make_shared<const ParsedStridedCrossEntropy>(op, problem);
  }
  return std::make_shared<const ParsedCrossEntropy>(op, problem);
}

}  // namespace

ParsedProblemPtr ParsedCrossEntropy::of(const Op& op, const CrossEntropyProblem& p) { return parsed(op, p); }
ParsedProblemPtr ParsedCrossEntropy::of(const Op& op, const CrossEntropyBackwardProblem& p) { return parsed(op, p); }
ParsedProblemPtr ParsedCrossEntropy::of(const Op& op, const CrossEntropyShardProblem& p) { return parsed(op, p); }
ParsedProblemPtr ParsedCrossEntropy::of(const Op& op, const CrossEntropyCombineProblem& p) { return parsed(op, p); }

KeyParts ParsedCrossEntropy::key() const {
  const Settings& settings = settings_;
  KeyParts parts;
  parts.problem_class = settings.problem_class();
  parts.n_cols = settings_.kind == Kind::combine ? settings.shards : settings.shape.cols;
  parts.rows_bucket = settings.shape.tuned_rows_bucket();
  return parts;
}

Cost ParsedCrossEntropy::cost() const { return cost_of(settings_, array_view()); }

LossConfig ParsedCrossEntropy::read(const Config& config) const {
  if (is_row_kernel()) return {row::TypedConfig::parse(config)};
  if (settings_.kind == Kind::backward) return {TileConfig::parse(config)};
  return {CombineConfig::parse(config)};
}

LossConfig ParsedCrossEntropy::default_of(const DeviceInfo& device) const {
  const row::Shape& shape = settings_.shape;
  if (is_row_kernel()) return {row::default_config(shape, device)};
  if (settings_.kind == Kind::backward) return {default_tile_config(shape, device)};
  return {CombineConfig()};
}

Config ParsedCrossEntropy::complete_config(const DeviceInfo& device, const Config& partial) const {
  const row::Shape& shape = settings_.shape;
  if (is_row_kernel()) return row::complete_config(partial, shape, device);
  if (settings_.kind == Kind::backward) return complete_tile_config(partial, shape, device);
  Config config = with_values(CombineConfig().to_config(), partial);
  require_usable(config, why_invalid(device, config));
  return config;
}

std::vector<Config> ParsedCrossEntropy::search_space(const DeviceInfo& device, Effort effort) const {
  const row::Shape& shape = settings_.shape;
  if (is_row_kernel()) return row::search_space(shape, device, effort);
  return settings_.kind == Kind::backward ? tile_search_space(shape, device, effort)
                                          : std::vector<Config>{CombineConfig().to_config()};
}

std::string ParsedCrossEntropy::why_invalid_of(const DeviceInfo& device, const LossConfig& config) const {
  const row::Shape& shape = settings_.shape;
  if (const auto* const row = std::get_if<row::TypedConfig>(&config.kind)) return row::why_invalid(*row, shape, device);
  if (const auto* const tiles = std::get_if<TileConfig>(&config.kind))
    return cross_entropy::why_invalid(*tiles, shape, device);
  return {};
}

std::optional<Config> ParsedCrossEntropy::capacity_config(const DeviceInfo& device) const {
  if (!is_row_kernel()) return std::nullopt;
  return row::capacity_config(settings_.shape, device).to_config();
}

std::string ParsedCrossEntropy::capacity_class() const {
  return is_row_kernel() ? row::capacity_class(*this, settings_.shape) : std::string();
}

std::vector<ParsedProblemPtr> ParsedCrossEntropy::in_buckets(std::int64_t least, std::int64_t most) const {
  return is_row_kernel() ? row::in_buckets(*this, settings_.shape, least, most) : std::vector<ParsedProblemPtr>();
}

Problem ParsedCrossEntropy::verification_problem() const {
  Problem small = problem();
  // About a million elements, with enough rows for all edge cases, and a number that no block size divides.
  small.fields.set("rows", std::clamp<std::int64_t>((std::int64_t{1} << 20) / settings_.shape.cols, 32, 512) + 1);
  return small;
}

void ParsedCrossEntropy::fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const {
  cross_entropy::fill_inputs(settings_, seed, kind, arrays);
}

CheckResult ParsedCrossEntropy::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  return cross_entropy::check(settings_, arrays, max_rows);
}

}  // namespace tunesmith
