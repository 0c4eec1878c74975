#include "templates/attention/op.h"

#include <algorithm>
#include <array>
#include <bit>

#include "templates/attention/config.h"
#include "templates/attention/modification.h"
#include "tunesmith/error.h"

namespace tunesmith {

using namespace attention;

ParsedAttention::ParsedAttention(const Op& op, const AttentionProblem& problem)
    : ParsedProblem(op, problem), typed_(problem), settings_(Settings::of(problem)) {}

std::vector<FieldInfo> config_fields_of(const AttentionProblem&) { return config_field_infos(); }

KeyParts ParsedAttention::key() const {
  const Settings& settings = settings_;
  KeyParts parts;
  std::string& text = parts.problem_class;
  text = std::string(tunesmith::name(settings.dtype)) + ",d=" + std::to_string(settings.head_dim) + "/" +
         std::to_string(settings.head_dim_v) + ",group=" + std::to_string(settings.group());
  // Other kernels are fast for few queries, whatever the number of heads.
  const auto queries = static_cast<std::uint64_t>(std::clamp<std::int64_t>(settings.seq_q, 1, 1024));
  text += ",q<=" + std::to_string(std::bit_ceil(queries));
  if (settings.causal != Causal::none) text += settings.causal == Causal::top_left ? ",top_left" : ",bottom_right";
  if (settings.window_left) text += ",left=" + std::to_string(*settings.window_left);
  if (settings.window_right) text += ",right=" + std::to_string(*settings.window_right);
  if (settings.softcap != 0) text += ",softcap";
  if (settings.alibi) text += ",alibi";
  if (settings.sinks) text += ",sinks";
  if (settings.varlen) text += ",varlen";
  text += modification_key(settings);
  text += ",vectors=";
  for (const Side side : {Side::q, Side::k, Side::v, Side::o}) text += std::to_string(settings.vector(side)) + ".";
  text.pop_back();
  parts.n_cols = settings.seq_kv;
  parts.n_cols_in_buckets = true;
  // From here on every GPU is full.
  constexpr std::uint64_t full = 1 << 20;
  const std::int64_t rows =
      std::max<std::int64_t>(settings.batch * settings.heads, 1) * std::max<std::int64_t>(settings.seq_q, 1);
  parts.rows_bucket = static_cast<std::int64_t>(std::bit_ceil(std::min(static_cast<std::uint64_t>(rows), full)));
  return parts;
}

Cost ParsedAttention::cost() const {
  const Settings& settings = settings_;
  Cost cost;
  for (const ArrayInfo& array : arrays()) {
    const double bytes = static_cast<double>(array.elements()) * static_cast<double>(size_of(array.dtype));
    (array.output ? cost.bytes_written : cost.bytes_read) += bytes;
  }
  double sequences = static_cast<double>(settings.batch);
  // Only the sums of the lengths are known: assume equal lengths.
  if (settings.varlen && settings.seq_q > 0)
    sequences = static_cast<double>(settings.total_q) / static_cast<double>(settings.seq_q);
  cost.flops = 2 * sequences * static_cast<double>(settings.heads) * settings.visible_pairs() *
               static_cast<double>(settings.head_dim + settings.head_dim_v);
  if (!settings.mask_mod.empty()) cost.overcounted = "pairs that mask_mod hides";
  return cost;
}

Config ParsedAttention::default_config(const DeviceInfo& device) const {
  return attention::default_config(settings_, device).to_config();
}

std::vector<Config> ParsedAttention::search_space(const DeviceInfo& device, Effort effort) const {
  return attention::search_space(settings_, device, effort);
}

Config ParsedAttention::complete_config(const DeviceInfo& device, const Config& partial) const {
  return attention::complete_config(partial, settings_, device);
}

std::string ParsedAttention::why_invalid(const DeviceInfo& device, const Config& config) const {
  try {
    return attention::why_invalid(TypedConfig::parse(config), settings_, device);
  } catch (const Error& error) {
    return error.what();
  }
}

namespace {

/// Strides with gaps for a small problem: the strides of the large one would reach as far as its arrays. They allow the same
/// accesses and broadcast the same dimensions.
AttentionArrayStrides narrow_strides(const Settings& large, const Settings& small, Side side) {
  const std::int64_t gap = large.vector(side), heads = small.heads_of(side), positions = small.positions(side);
  const bool heads_inside = small.layout == AttentionLayout::bshd;
  const std::int64_t inner = small.width(side) + gap, outer = inner * (heads_inside ? heads : positions) + gap;
  const Tensor& tensor = large.tensor(side);
  const auto stride = [](std::int64_t given, std::int64_t value) { return given == 0 ? 0 : value; };
  AttentionArrayStrides strides;
  strides.head = stride(tensor.head_stride, heads_inside ? inner : outer);
  strides.seq = stride(tensor.seq_stride, heads_inside ? outer : inner);
  if (!small.varlen) strides.batch = stride(tensor.batch_stride, outer * (heads_inside ? positions : heads) + gap);
  return strides;
}

}  // namespace

Problem ParsedAttention::tuned_as() const {
  AttentionProblem tuned = typed_;
  tuned.block_mask = BlockMask::internal;
  return op().normalize(to_problem(tuned));
}

Problem ParsedAttention::verification_problem() const {
  // Ragged in every direction, with more tiles than a GPU has multiprocessors, so that a kernel that takes several of them
  // does. Kernels are specialized for the number of query heads that share a key head.
  AttentionProblem small = typed_;
  small.block_mask = BlockMask::internal;
  const std::int64_t kv_heads = std::min<std::int64_t>(settings_.kv_heads, 2);
  small.kv_heads = kv_heads;
  small.heads = kv_heads * settings_.group();
  small.batch = std::clamp<std::int64_t>(128 / small.heads, 1, 33);
  // Auxiliary arrays may be declared with numbers: what indexes them must not grow.
  if (settings_.modified()) small.batch = std::clamp<std::int64_t>(settings_.batch, 1, small.batch);
  small.seq_q = std::clamp<std::int64_t>(settings_.seq_q, 1, 173);
  small.seq_kv = std::min<std::int64_t>(settings_.seq_kv, 331);
  if (settings_.varlen) {
    small.total_q = small.batch * small.seq_q * 2 / 3;
    small.total_kv = small.batch * *small.seq_kv * 2 / 3;
  }
  if (small.window_left) small.window_left = std::min<std::int64_t>(*small.window_left, 57);
  if (small.window_right) small.window_right = std::min<std::int64_t>(*small.window_right, 39);

  const std::array<AttentionArrayStrides*, 4> strides{&small.q_strides, &small.k_strides, &small.v_strides,
                                                      &small.o_strides};
  for (AttentionArrayStrides* side : strides) *side = {};
  const Settings sizes = Settings::of(small);
  for (const Side side : {Side::q, Side::k, Side::v, Side::o}) {
    const std::string name = side_names[static_cast<std::size_t>(side)];
    const auto differs = [&](const char* stride) { return problem().fields.contains(name + stride); };
    if (differs("_batch_stride") || differs("_seq_stride") || differs("_head_stride"))
      *strides[static_cast<std::size_t>(side)] = narrow_strides(settings_, sizes, side);
  }
  return op().normalize(to_problem(small));
}

}  // namespace tunesmith
