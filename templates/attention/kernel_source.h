#pragma once
// What the sources and the parameters of all attention kernels share, forward and backward. Internal to templates/.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "templates/attention/settings.h"

namespace tunesmith::attention {

/// Elements, as AttentionStrides has them.
struct Strides {
  std::int64_t batch, seq, head;
};

/// Must agree with AttentionParams in attention.cuh; generated sources assert the size.
struct Params {
  std::uint64_t tensors[4];
  std::uint64_t lse, alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_kv, block_mask, workspace;
  std::uint64_t aux[most_aux];
  Strides strides[4];
  std::int64_t total_q, mask_batch_stride, mask_head_stride;
  std::int32_t batch, heads, kv_heads, seq_q, seq_kv, q_tiles, window_left, window_right, splits;
  std::int32_t heads_per_section, mask_rows, mask_words;
  float scale, scale_log2, softcap, inverse_softcap, cap_terms[3], cap_near, cap_small_terms[2], cap_small;
  float cap_lse_terms[3], cap_lse;
};

/// Returns the parameters that do not depend on the configuration; q_tiles and splits are 0.
Params parameters_of(const Settings& settings);
/// Returns where the address of an array of the forward pass is stored in Params; Params::cu_seqlens_kv for other names.
std::uint32_t pointer_offset(const std::string& array, const Settings& settings);

/// Returns the AttentionShape `shape`. Members with default values are omitted.
std::string shape_text(const Settings& settings);

/// How 16-bit rows come into shared memory (AlignedChunks and UnalignedChunks).
enum class Chunks : std::uint8_t { none, aligned, unaligned };
/// The types of AttentionFeatures that a kernel uses.
struct FeatureUse {
  bool steps = false;  ///< options are applied to a whole tile at a time
  bool sinks = false;
  Chunks chunks = Chunks::none;
};
/// Returns AttentionFeatures<shape>.
std::string features_text(const Settings& settings, const FeatureUse& use);

/// Returns SourceParts::specialized_for.
std::vector<std::pair<std::string, std::string>> specialized_for(const Settings& settings);

}  // namespace tunesmith::attention
