// Configurations of simt and mma, and properties of a problem that decide about configurations.

#include "templates/attention_backward/search/candidates.h"

#include <algorithm>
#include <array>

namespace tunesmith::attention_backward {
namespace {

/// Returns kernels for head dimensions up to 64: for dk and dv, and for dq.
std::vector<MmaPass> narrow_passes() {
  return {
      {4, 128, 32, 2, false}, {4, 64, 64, 2, false}, {8, 128, 64, 2, false}, {4, 64, 32, 2, false}, {4, 64, 64, 1, false}};
}

/// Returns kernels for dk and dv, the best guess first.
std::vector<MmaPass> key_passes(std::int64_t widest) {
  if (widest <= 64) return narrow_passes();
  if (widest <= 128)
    return {{4, 64, 32, 2, false}, {8, 128, 32, 2, false}, {4, 64, 32, 1, false},
            {8, 64, 64, 2, true},  {4, 64, 16, 2, false},  {8, 64, 32, 1, true}};
  return {{8, 64, 32, 2, true}, {8, 64, 32, 1, true}, {8, 64, 16, 1, true},
          {4, 32, 32, 2, true}, {4, 32, 32, 1, true}, {4, 32, 16, 1, true}};
}

/// Returns kernels for dq, the best guess first.
std::vector<MmaPass> query_passes(std::int64_t widest) {
  if (widest <= 64) return narrow_passes();
  if (widest <= 128)
    return {{4, 64, 64, 2, false},  {8, 128, 64, 2, false}, {4, 64, 32, 2, false},
            {8, 128, 32, 2, false}, {4, 64, 64, 1, false},  {4, 64, 32, 1, false}};
  return {{4, 64, 32, 2, false}, {4, 64, 32, 1, false}, {8, 128, 16, 1, false},
          {2, 32, 32, 2, false}, {2, 32, 32, 1, false}, {2, 32, 16, 1, false}};
}

TypedConfig mma_config(const MmaPass& keys, const MmaPass& queries) {
  TypedConfig config;
  config.variant = Variant::mma;
  config.keys = keys;
  config.queries = queries;
  return config;
}

}  // namespace

std::vector<TypedConfig> simt_candidates() {
  constexpr std::array<std::array<int, 3>, 9> tiles{{{64, 64, 256},
                                                     {32, 64, 256},
                                                     {64, 32, 256},
                                                     {32, 32, 256},
                                                     {32, 32, 128},
                                                     {64, 64, 128},
                                                     {16, 32, 128},
                                                     {16, 16, 256},
                                                     {16, 16, 64}}};
  std::vector<TypedConfig> configs;
  for (const auto& [tile_q, tile_kv, threads] : tiles) {
    TypedConfig config;
    config.tile_q = tile_q;
    config.tile_kv = tile_kv;
    config.threads = threads;
    configs.push_back(config);
  }
  return configs;
}

std::vector<TypedConfig> mma_candidates(const Settings& settings) {
  const std::int64_t widest = widest_head(settings);
  const std::vector<MmaPass> keys = key_passes(widest), queries = query_passes(widest);
  std::vector<TypedConfig> configs;
  for (std::size_t sum = 0; sum + 1 < keys.size() + queries.size(); ++sum)
    for (std::size_t i = 0; i <= sum; ++i)
      if (i < keys.size() && sum - i < queries.size()) configs.push_back(mma_config(keys[i], queries[sum - i]));
  return configs;
}

std::int64_t widest_head(const Settings& settings) {
  return std::max(settings.forward.head_dim, settings.forward.head_dim_v);
}

bool keeps_scores(const attention::Settings& forward) {
  return forward.softcap == 0 && forward.score_mod.empty() && forward.dropout == 0;
}

bool has_plain_scores(const attention::Settings& forward) { return keeps_scores(forward) && forward.mask_mod.empty(); }

bool is_dense(const attention::Settings& forward) { return !forward.alibi && !forward.varlen && !forward.bounded_left(); }

bool is_plain(const attention::Settings& forward) { return has_plain_scores(forward) && is_dense(forward); }

}  // namespace tunesmith::attention_backward
