#include "templates/attention/op.h"

#include "templates/attention/key.h"
#include "templates/attention/reference/smaller_problem.h"
#include "templates/attention/search/config.h"
#include "templates/attention/source/modification.h"
#include "tunesmith/error.h"

namespace tunesmith {

using namespace attention;

ParsedAttention::ParsedAttention(const Op& op, const AttentionProblem& problem)
    : TypedProblem(op, problem), typed_(problem), settings_(Settings::of(problem)) {}

std::vector<FieldInfo> config_fields_of(const AttentionProblem&) { return config_field_infos(); }

KeyParts ParsedAttention::key() const {
  KeyParts parts = key_of(settings_);
  parts.problem_class += padding_class(settings_);
  return parts;
}

Cost ParsedAttention::cost() const {
  const Settings& settings = settings_;
  Cost cost;
  for (const ArrayInfo& array : array_view()) {
    double elements = static_cast<double>(array.elements());
    // A pool may have pages that nothing reads, or that several sequences read: count full sequences.
    const bool scales = settings.has_row_scales() && (array.name == "k_scale" || array.name == "v_scale");
    if (settings.page_size > 0 && (scales || array.name == "k" || array.name == "v"))
      elements = static_cast<double>(settings.batch * settings.seq_kv * settings.kv_heads) *
                 (scales ? 1 : static_cast<double>(array.shape[3]));
    const double bytes = elements * static_cast<double>(size_of(array.dtype));
    (array.output ? cost.bytes_written : cost.bytes_read) += bytes;
  }
  cost.flops = 2 * total_visible_pairs(settings) * static_cast<double>(settings.head_dim + settings.head_dim_v);
  if (!settings.mask_mod.empty()) cost.overcounted = "pairs that mask_mod hides";
  return cost;
}

attention::TypedConfig ParsedAttention::default_of(const DeviceInfo& device) const {
  return attention::default_config(settings_, device);
}

std::vector<Config> ParsedAttention::search_space(const DeviceInfo& device, Effort effort) const {
  return attention::search_space(settings_, device, effort);
}

Config ParsedAttention::complete_config(const DeviceInfo& device, const Config& partial) const {
  return attention::complete_config(partial, settings_, device);
}

std::string ParsedAttention::why_invalid_of(const DeviceInfo& device, const TypedConfig& config) const {
  return attention::why_invalid(config, settings_, device);
}

Problem ParsedAttention::tuned_as() const {
  AttentionProblem tuned = typed_;
  tuned.block_mask = BlockMask::internal;
  return op().normalize(to_problem(tuned));
}

Problem ParsedAttention::verification_problem() const { return op().normalize(to_problem(smaller_problem(typed_))); }

}  // namespace tunesmith
