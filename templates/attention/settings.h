#pragma once
// A complete attention problem as kernels need it: no absent fields, arrays by side. Internal to templates/.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "templates/attention/source/aux.h"
#include "tunesmith/attention.h"

namespace tunesmith::attention {

enum class Side : std::uint8_t { q, k, v, o };
inline constexpr std::array<const char*, 4> side_names{"q", "k", "v", "o"};

/// Allowed error of 16-bit kernels in a small capped score: 1/64 of what rounding a weight to bf16 may change, 1/8 with f16.
inline constexpr double small_cap_error = 0x1p-14;
/// The same in calls that ask for lse, which contains it.
inline constexpr double lse_cap_error = 0x1p-20;
/// Largest magnitude of a small score, whatever the cap. bf16 kernels then use magnitudes as maxima, and weights that are
/// 2^-58 times as large as they could be still do not underflow.
inline constexpr double max_small_score = 20;

/// One of q, k, v, o.
struct Tensor {
  std::int64_t batch_stride = 0, seq_stride = 0, head_stride = 0;  ///< elements; batch: 0 if packed, of pages if there are
  std::int64_t alignment = 16;                                     ///< bytes
};

/// The dimensions of an array: sequences, 1 if they are packed, or pages; positions; heads; elements of a row.
struct Extents {
  std::int64_t entries = 1, rows = 1, heads = 1, width = 1;
};

struct Settings {
  std::int64_t batch = 1, heads = 1, kv_heads = 1, seq_q = 1, seq_kv = 1, head_dim = 64, head_dim_v = 64;
  DType dtype = DType::bf16, kv_dtype = DType::bf16;
  KvScales kv_scales = KvScales::none;
  std::array<Tensor, 2> scales;  ///< of k and v; strides of dimensions that share a scale are 0
  AttentionLayout layout = AttentionLayout::bshd;
  std::array<Tensor, 4> tensors;
  Causal causal = Causal::none;
  std::optional<std::int64_t> window_left, window_right;
  double scale = 1;
  double softcap = 0;
  bool alibi = false, sinks = false, varlen = false;
  std::int64_t total_q = 0, total_kv = 0;
  bool kv_lengths = false;  ///< lengths of keys are in an array; varlen then packs queries alone
  std::int64_t page_size = 0, pages = 0, max_pages = 0, table_stride = 0;  ///< page_size 0: no pages
  std::int64_t split_keys = 0;                                             ///< 0: splits fill the device
  std::string score_mod, mask_mod;                                         ///< user sources; empty: none
  std::vector<Aux> aux;                                                    ///< what they read
  BlockMask block_mask = BlockMask::internal;
  double dropout = 0;
  std::int64_t dropout_seed = 0, dropout_offset = 0;

  /// Absent fields get their defaults.
  static Settings of(const AttentionProblem& problem);

  const Tensor& tensor(Side side) const noexcept { return tensors[static_cast<std::size_t>(side)]; }
  std::int64_t width(Side side) const noexcept { return side == Side::q || side == Side::k ? head_dim : head_dim_v; }
  std::int64_t heads_of(Side side) const noexcept { return side == Side::q || side == Side::o ? heads : kv_heads; }
  DType dtype_of(Side side) const noexcept { return is_key(side) ? kv_dtype : dtype; }
  bool has_row_scales() const noexcept { return kv_scales == KvScales::token_head; }
  /// The scales of k or v.
  const Tensor& scale_tensor(Side side) const noexcept { return scales[side == Side::v ? 1 : 0]; }
  Extents extents(Side side) const noexcept;
  /// Whether an array of this side has no entries, because positions count through all sequences.
  bool packed(Side side) const noexcept { return varlen && !(is_key(side) && kv_lengths); }
  static bool is_key(Side side) noexcept { return side == Side::k || side == Side::v; }
  /// Positions of the longest sequence.
  std::int64_t length(Side side) const noexcept { return is_key(side) ? seq_kv : seq_q; }
  /// Offset of the first element of a row; positions of packed sequences count through all of them, and `entry` is ignored.
  std::int64_t element(Side side, std::int64_t entry, std::int64_t position, std::int64_t head) const noexcept {
    return element(tensor(side), entry, position, head);
  }
  /// The same in a tensor of any side's shape.
  static std::int64_t element(const Tensor& strides, std::int64_t entry, std::int64_t position, std::int64_t head) noexcept {
    return entry * strides.batch_stride + position * strides.seq_stride + head * strides.head_stride;
  }
  /// Elements of the widest access of at most 16 bytes for which every row is aligned.
  int vector(Side side) const noexcept { return vector(side, tensor(side)); }
  /// The same for a tensor of this side's shape, such as its gradient.
  int vector(Side side, const Tensor& strides) const noexcept;
  /// Bytes of that access.
  int vector_bytes(Side side) const noexcept { return vector(side) * static_cast<int>(size_of(dtype_of(side))); }
  /// Returns a tensor of this side's shape; absent strides are contiguous.
  Tensor tensor_like(Side side, const AttentionArrayStrides& strides, std::int64_t alignment) const {
    return tensor_like(side, strides, alignment, width(side));
  }
  std::int64_t group() const noexcept { return heads / kv_heads; }
  /// Returns the number of sequences that choices of configurations may depend on.
  std::int64_t batch_of_choices() const noexcept { return split_keys > 0 ? 1 : batch; }
  bool modified() const noexcept { return !score_mod.empty() || !mask_mod.empty(); }
  /// A stride of 0 reads the same elements for several indices.
  bool broadcasts(Side side) const noexcept { return broadcasts(side, tensor(side)); }
  /// The same for a tensor of this side's shape.
  bool broadcasts(Side side, const Tensor& strides) const noexcept;
  std::vector<Dimension> dimensions() const;

  bool bounded_left() const noexcept { return window_left.has_value(); }
  bool bounded_right() const noexcept { return window_right.has_value() || causal != Causal::none; }
  /// Visible keys after the query's position; -1: all.
  std::int64_t right() const noexcept { return causal != Causal::none ? 0 : window_right.value_or(-1); }
  /// Visible keys before the query's position; -1: all.
  std::int64_t left() const noexcept { return window_left.value_or(-1); }
  /// Query i of a sequence of these lengths is at the position of key i + offset.
  std::int64_t offset(std::int64_t queries, std::int64_t keys) const noexcept {
    return causal == Causal::top_left ? 0 : keys - queries;
  }
  /// Returns a bound of the queries of one sequence: seq_q, or all of the packed ones if these are fewer.
  std::int64_t max_queries() const noexcept { return varlen ? std::min(seq_q, total_q) : seq_q; }
  /// Visible pairs of a query and a key in one head of the longest sequence.
  double visible_pairs() const noexcept;

 private:
  Tensor tensor_like(Side side, const AttentionArrayStrides& strides, std::int64_t alignment, std::int64_t row) const;
  /// Returns the scales of k or v as a tensor.
  Tensor scale_like(Side side, const AttentionArrayStrides& strides) const;
};

/// Throws Error(invalid_argument) if the strides of output `name` make rows overlap.
void check_apart(const Settings& settings, Side side, const Tensor& tensor, std::string_view name);

/// The sizes that declarations of auxiliary arrays may name.
std::vector<Dimension> dimensions_of(const AttentionProblem& problem);

}  // namespace tunesmith::attention
