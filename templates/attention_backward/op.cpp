#include "templates/attention_backward/op.h"

#include <algorithm>

#include "core/tokens.h"
#include "templates/attention/key.h"
#include "templates/attention/reference/smaller_problem.h"
#include "templates/attention_backward/search/config.h"
#include "tunesmith/error.h"

namespace tunesmith {

using namespace attention_backward;

ParsedAttentionBackward::ParsedAttentionBackward(const Op& op, const AttentionBackwardProblem& problem)
    : TypedProblem(op, problem), typed_(problem), settings_(Settings::of(problem)) {}

std::vector<FieldInfo> config_fields_of(const AttentionBackwardProblem&) { return config_field_infos(); }

KeyParts ParsedAttentionBackward::key() const {
  KeyParts parts = attention::key_of(settings_.forward);
  if (settings_.dlse) parts.problem_class += ",dlse";
  if (settings_.dsinks) parts.problem_class += ",dsinks";
  if (settings_.dslopes) parts.problem_class += ",dslopes";
  if (settings_.deterministic) parts.problem_class += ",deterministic";
  if (settings_.accumulate) parts.problem_class += ",accumulate";
  if (!settings_.score_mod_grad.empty())
    parts.problem_class += ",score_mod_grad=" + token_digest(settings_.score_mod_grad).substr(0, 16);
  for (const std::string& array : settings_.daux.arrays()) parts.problem_class += "," + array;
  parts.problem_class += ",gradient_vectors=";
  for (const GradientTensor& gradient : gradient_tensors)
    parts.problem_class += std::to_string(settings_.forward.vector(gradient.side, settings_.*gradient.tensor)) + ".";
  parts.problem_class.pop_back();
  return parts;
}

Cost ParsedAttentionBackward::cost() const {
  const attention::Settings& forward = settings_.forward;
  Cost cost;
  for (const ArrayInfo& array : array_view()) {
    const double bytes = static_cast<double>(array.elements()) * static_cast<double>(size_of(array.dtype));
    if (array.input) cost.bytes_read += bytes;
    if (array.output) cost.bytes_written += bytes;
  }
  // Five products: S, dQ and dK over head_dim, dP and dV over head_dim_v.
  cost.flops =
      2 * attention::total_visible_pairs(forward) * static_cast<double>(3 * forward.head_dim + 2 * forward.head_dim_v);
  if (!forward.mask_mod.empty()) cost.overcounted = "pairs that mask_mod hides";
  return cost;
}

attention_backward::TypedConfig ParsedAttentionBackward::default_of(const DeviceInfo& device) const {
  return attention_backward::default_config(settings_, device);
}

std::vector<Config> ParsedAttentionBackward::search_space(const DeviceInfo& device, Effort effort) const {
  return attention_backward::search_space(settings_, device, effort);
}

Config ParsedAttentionBackward::complete_config(const DeviceInfo& device, const Config& partial) const {
  return attention_backward::complete_config(partial, settings_, device);
}

std::string ParsedAttentionBackward::why_invalid_of(const DeviceInfo& device, const TypedConfig& config) const {
  return attention_backward::why_invalid(config, settings_, device);
}

Problem ParsedAttentionBackward::tuned_as() const {
  AttentionBackwardProblem tuned = typed_;
  tuned.block_mask = BlockMask::internal;
  return op().normalize(to_problem(tuned));
}

Problem ParsedAttentionBackward::verification_problem() const {
  AttentionBackwardProblem small = typed_;
  static_cast<AttentionProblem&>(small) = attention::smaller_problem(typed_);
  // The reference of a gradient goes through all pairs: few heads in all.
  const std::int64_t batch = std::min<std::int64_t>(small.batch, std::max<std::int64_t>(24 / small.heads, 2));
  if (small.varlen) {
    small.total_q = *small.total_q * batch / small.batch;
    small.total_kv = *small.total_kv * batch / small.batch;
  }
  small.batch = batch;
  const attention::Settings sizes = attention::Settings::of(small);
  for (const GradientTensor& gradient : gradient_tensors) {
    const Tensor& tensor = settings_.*gradient.tensor;
    small.*gradient.strides = attention::narrow_strides(settings_.forward, sizes, gradient.side, tensor);
    small.*gradient.alignment = attention::narrow_alignment(settings_.forward, gradient.side, tensor);
  }
  return op().normalize(to_problem(small));
}

}  // namespace tunesmith
