#include "templates/attention/op.h"

#include <algorithm>
#include <bit>

#include "templates/attention/config.h"
#include "templates/attention/modification.h"
#include "tunesmith/error.h"

namespace tunesmith {

using namespace attention;

std::vector<FieldInfo> AttentionOp::config_fields() const { return config_field_infos(); }

KeyParts AttentionOp::key(const Problem& problem) const {
  const Settings settings = Settings::of(problem);
  KeyParts parts;
  std::string& text = parts.semantics;
  text = std::string(tunesmith::name(settings.dtype)) + ",d=" + std::to_string(settings.head_dim) + "/" +
         std::to_string(settings.head_dim_v) + ",group=" + std::to_string(settings.group());
  // Few queries are another problem than many, whatever their number of heads.
  const auto queries = static_cast<std::uint64_t>(std::clamp<std::int64_t>(settings.seq_q, 1, 1024));
  text += ",q<=" + std::to_string(std::bit_ceil(queries));
  if (settings.causal != Causal::none) text += settings.causal == Causal::top_left ? ",top_left" : ",bottom_right";
  if (settings.window_left >= 0) text += ",left=" + std::to_string(settings.window_left);
  if (settings.window_right >= 0) text += ",right=" + std::to_string(settings.window_right);
  if (settings.softcap != 0) text += ",softcap";
  if (settings.alibi) text += ",alibi";
  if (settings.sinks) text += ",sinks";
  if (settings.varlen) text += ",varlen";
  text += modification_key(settings);
  text += ",vectors=";
  for (const Side side : {Side::q, Side::k, Side::v, Side::o}) text += std::to_string(settings.vector(side)) + ".";
  text.pop_back();
  parts.n_cols = settings.seq_kv;
  // From here on every GPU is full.
  constexpr std::uint64_t full = 1 << 20;
  const std::int64_t rows =
      std::max<std::int64_t>(settings.batch * settings.heads, 1) * std::max<std::int64_t>(settings.seq_q, 1);
  parts.rows_bucket = static_cast<std::int64_t>(std::bit_ceil(std::min(static_cast<std::uint64_t>(rows), full)));
  return parts;
}

Cost AttentionOp::cost(const Problem& problem) const {
  const Settings settings = Settings::of(problem);
  Cost cost;
  for (const ArrayInfo& array : arrays(problem)) {
    const double bytes = static_cast<double>(array.elements()) * static_cast<double>(size_of(array.dtype));
    (array.output ? cost.bytes_written : cost.bytes_read) += bytes;
  }
  double sequences = static_cast<double>(settings.batch);
  // Of lengths only the sums are known: as if all were alike.
  if (settings.varlen && settings.seq_q > 0)
    sequences = static_cast<double>(settings.total_q) / static_cast<double>(settings.seq_q);
  cost.flops = 2 * sequences * static_cast<double>(settings.heads) * settings.visible_pairs() *
               static_cast<double>(settings.head_dim + settings.head_dim_v);
  if (!settings.mask_mod.empty()) cost.overcounted = "pairs that mask_mod hides";
  return cost;
}

Config AttentionOp::default_config(const Problem& problem, const DeviceInfo& device) const {
  return attention::default_config(Settings::of(problem), device).to_config();
}

std::vector<Config> AttentionOp::search_space(const Problem& problem, const DeviceInfo& device, Effort effort) const {
  return attention::search_space(Settings::of(problem), device, effort);
}

Config AttentionOp::complete_config(const Problem& problem, const DeviceInfo& device, const Config& partial) const {
  return attention::complete_config(partial, Settings::of(problem), device);
}

std::string AttentionOp::why_invalid(const Problem& problem, const DeviceInfo& device, const Config& config) const {
  try {
    return attention::why_invalid(TypedConfig::parse(config), Settings::of(problem), device);
  } catch (const Error& error) {
    return error.what();
  }
}

namespace {

/// Strides as given would reach as far as the large problem's: gaps that keep what one access may take are enough.
void set_narrow_strides(const Settings& large, const Settings& small, Fields& fields) {
  for (const Side side : {Side::q, Side::k, Side::v, Side::o}) {
    const std::string name = side_names[static_cast<std::size_t>(side)];
    const bool given = fields.contains(name + "_batch_stride") || fields.contains(name + "_seq_stride") ||
                       fields.contains(name + "_head_stride");
    if (!given) continue;
    const std::int64_t gap = large.vector(side), heads = small.heads_of(side), positions = small.positions(side);
    const bool heads_inside = small.layout == AttentionLayout::bshd;
    const std::int64_t inner = small.width(side) + gap, outer = inner * (heads_inside ? heads : positions) + gap;
    fields.set(name + "_head_stride", heads_inside ? inner : outer);
    fields.set(name + "_seq_stride", heads_inside ? outer : inner);
    if (!small.varlen) fields.set(name + "_batch_stride", outer * (heads_inside ? positions : heads) + gap);
  }
}

}  // namespace

Problem AttentionOp::tuned_as(const Problem& problem) const {
  Problem result = problem;
  result.fields.set("mask_tiles", std::string("internal"));
  return normalize(result);
}

Problem AttentionOp::verification_problem(const Problem& problem) const {
  const Settings settings = Settings::of(problem);
  // Ragged in every direction, with more tiles than a GPU has multiprocessors, so that a kernel that takes several of them
  // does; how many query heads share a key head is part of what a kernel is specialized for.
  Settings small = settings;
  small.kv_heads = std::min<std::int64_t>(settings.kv_heads, 2);
  small.heads = small.kv_heads * settings.group();
  small.batch = std::clamp<std::int64_t>(128 / small.heads, 1, 33);
  // Arrays that a user's text reads may be declared by numbers: what indexes them must not grow.
  if (settings.modified()) small.batch = std::clamp<std::int64_t>(settings.batch, 1, small.batch);
  small.seq_q = std::clamp<std::int64_t>(settings.seq_q, 1, 173);
  small.seq_kv = std::min<std::int64_t>(settings.seq_kv, 331);
  small.total_q = small.batch * small.seq_q * 2 / 3;
  small.total_kv = small.batch * small.seq_kv * 2 / 3;
  small.window_left = std::min<std::int64_t>(settings.window_left, 57);
  small.window_right = std::min<std::int64_t>(settings.window_right, 39);

  Problem result = tuned_as(problem);
  Fields& fields = result.fields;
  fields.set("batch", small.batch);
  fields.set("heads", small.heads);
  fields.set("kv_heads", small.kv_heads);
  fields.set("seq_q", small.seq_q);
  fields.set("seq_kv", small.seq_kv);
  if (settings.window_left >= 0) fields.set("window_left", small.window_left);
  if (settings.window_right >= 0) fields.set("window_right", small.window_right);
  if (settings.varlen) {
    fields.set("total_q", small.total_q);
    fields.set("total_kv", small.total_kv);
  }
  set_narrow_strides(settings, small, fields);
  return normalize(result);
}

}  // namespace tunesmith
