#pragma once
// A normalized attention problem as plain numbers. Internal to templates/.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "templates/attention/aux.h"
#include "templates/op.h"
#include "tunesmith/attention.h"

namespace tunesmith::attention {

enum class Side : std::uint8_t { q, k, v, o };
inline constexpr std::array<const char*, 4> side_names{"q", "k", "v", "o"};

/// What 16-bit kernels may be off by in a capped score that is small: a 64th of what rounding a weight to bf16 may change,
/// an eighth with f16.
inline constexpr double small_cap_error = 0x1p-14;
/// Scores that are small are no larger than this in size, whatever the cap: bf16 kernels then take magnitudes for maxima,
/// and weights 2^-58 times as large as they could be still have room.
inline constexpr double most_small_score = 20;

/// One of q, k, v, o.
struct Tensor {
  std::int64_t batch_stride = 0, seq_stride = 0, head_stride = 0;  ///< elements
  std::int64_t alignment = 16;                                     ///< bytes
};

struct Settings {
  std::int64_t batch = 1, heads = 1, kv_heads = 1, seq_q = 1, seq_kv = 1, head_dim = 64, head_dim_v = 64;
  DType dtype = DType::bf16;
  AttentionLayout layout = AttentionLayout::bshd;
  std::array<Tensor, 4> tensors;
  Causal causal = Causal::none;
  std::int64_t window_left = -1, window_right = -1;
  double scale = 1;
  double softcap = 0;
  bool alibi = false, sinks = false, varlen = false;
  std::int64_t total_q = 0, total_kv = 0;
  std::string score_mod, mask_mod;  ///< the user's texts; empty: none
  std::vector<Aux> aux;             ///< what they read
  MaskTiles mask_tiles = MaskTiles::internal;

  /// Of a normalized problem.
  static Settings of(const Problem& problem);

  const Tensor& tensor(Side side) const noexcept { return tensors[static_cast<std::size_t>(side)]; }
  std::int64_t width(Side side) const noexcept { return side == Side::q || side == Side::k ? head_dim : head_dim_v; }
  std::int64_t heads_of(Side side) const noexcept { return side == Side::q || side == Side::o ? heads : kv_heads; }
  /// Positions of a sequence, or of all that are packed.
  std::int64_t positions(Side side) const noexcept;
  /// Offset of the first element of a position, which is counted through all packed sequences, and head.
  std::int64_t element(Side side, std::int64_t entry, std::int64_t position, std::int64_t head) const noexcept {
    const Tensor& strides = tensor(side);
    return (varlen ? 0 : entry * strides.batch_stride) + position * strides.seq_stride + head * strides.head_stride;
  }
  /// Elements that one access of at most 16 bytes may take: every row starts at a multiple of them.
  int vector(Side side) const noexcept;
  std::int64_t group() const noexcept { return heads / kv_heads; }
  bool modified() const noexcept { return !score_mod.empty() || !mask_mod.empty(); }
  /// What declarations of auxiliary arrays may name.
  std::vector<Dimension> dimensions() const;

  bool bounded_left() const noexcept { return window_left >= 0; }
  bool bounded_right() const noexcept { return window_right >= 0 || causal != Causal::none; }
  /// Keys behind its place that a query sees, where bounded.
  std::int64_t right() const noexcept { return causal != Causal::none ? 0 : window_right; }
  /// Query i of a sequence of these lengths stands at key i + offset.
  std::int64_t offset(std::int64_t queries, std::int64_t keys) const noexcept {
    return causal == Causal::top_left ? 0 : keys - queries;
  }
  /// Pairs of a query and a key that it sees, of a whole sequence and one head; of the longest where lengths differ.
  double visible_pairs() const noexcept;
};

ArrayInfo tensor_info(const Settings& settings, Side side);

}  // namespace tunesmith::attention
