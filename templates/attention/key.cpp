#include "templates/attention/key.h"

#include <algorithm>
#include <bit>

#include "templates/attention/source/modification.h"
#include "templates/attention/source/options.h"

namespace tunesmith::attention {

KeyParts key_of(const Settings& settings) {
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
  text += options_key(settings) + modification_key(settings);
  text += ",vectors=";
  for (const Side side : {Side::q, Side::k, Side::v, Side::o}) text += std::to_string(settings.vector(side)) + ".";
  text.pop_back();
  parts.n_cols = settings.seq_kv;
  parts.n_cols_in_buckets = true;
  // From here on every GPU is full.
  constexpr std::uint64_t full = 1 << 20;
  const std::int64_t rows =
      std::max<std::int64_t>(settings.batch_of_choices() * settings.heads, 1) * std::max<std::int64_t>(settings.seq_q, 1);
  parts.rows_bucket = static_cast<std::int64_t>(std::bit_ceil(std::min(static_cast<std::uint64_t>(rows), full)));
  return parts;
}

std::string padding_class(const Settings& settings) {
  // Beyond `most`, the last tile is at most 3% of a sequence. The lengths of packed sequences are unknown.
  constexpr std::int64_t least = 128, most = 4096;
  if (settings.varlen || settings.seq_q <= least || settings.seq_q > most) return {};
  const auto padded = [&](std::int64_t tile) {
    const std::int64_t tiles = (settings.seq_q + tile - 1) / tile;
    return static_cast<double>(tiles * tile);
  };
  constexpr double matters = 1.03;
  if (padded(192) >= matters * padded(128)) return {};
  return padded(128) >= matters * padded(192) ? ",pads=128" : ",pads=same";
}

double total_visible_pairs(const Settings& settings) noexcept {
  double sequences = static_cast<double>(settings.batch);
  // Only the sums of the lengths are known: assume equal lengths.
  if (settings.varlen && settings.seq_q > 0)
    sequences = static_cast<double>(settings.total_q) / static_cast<double>(settings.seq_q);
  return sequences * static_cast<double>(settings.heads) * settings.visible_pairs();
}

}  // namespace tunesmith::attention
