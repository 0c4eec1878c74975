#pragma once
// Where the sequences of a call and their rows are: in arrays with an entry for each sequence, packed one after another, or
// in pages. Internal to templates/.

#include <array>
#include <cstdint>
#include <span>

#include "core/launch.h"
#include "templates/attention/settings.h"
#include "templates/op.h"

namespace tunesmith::attention {

/// Returns the map of a tensor of this side's shape, with boxes of 64 columns (128 bytes) and `rows` positions of a head;
/// without its array and offset.
LaunchPlan::TensorMap tensor_map(const Settings& settings, Side side, const Tensor& tensor, std::int64_t rows);

/// The sequences that the arrays of a call describe.
class Sequences {
 public:
  Sequences(const Settings& settings, std::span<const HostArray> arrays);

  struct Bounds {
    std::int64_t q_start = 0, queries = 0, kv_start = 0, keys = 0;  ///< starts in packed arrays; else 0
  };
  /// Returns where a sequence starts and how long it is.
  Bounds bounds(std::int64_t batch) const;
  /// Returns the offset of the first element of a row; `position` counts from the start of a packed array.
  std::int64_t element(Side side, std::int64_t batch, std::int64_t position, std::int64_t head) const;
  /// Returns what an element of k or v in a row is multiplied by; 1 without scales.
  double scale(Side side, std::int64_t batch, std::int64_t position, std::int64_t head) const;
  /// Returns an entry of the block table. Throws Error(invalid_argument) if it is no page.
  std::int64_t page(std::int64_t batch, std::int64_t number) const;

 private:
  const Settings& settings_;
  /// The same for any array that lies like this side.
  std::int64_t element(Side side, const Tensor& tensor, std::int64_t batch, std::int64_t position, std::int64_t head) const;

  const HostArray *starts_q_, *starts_kv_, *lengths_, *table_;  ///< nullptr: the problem does not have it
  std::array<const HostArray*, 2> scales_;                      ///< of k and v
};

/// Fills kv_lengths and block_table. With edge cases, lengths of 0, 1 and at the borders of pages are among the lengths,
/// sequences share pages, and entries beyond a length are no pages; otherwise all sequences have seq_kv keys, in pages of
/// their own where the pool has enough, in any order.
void fill_pages(const Settings& settings, std::uint64_t seed, bool edge_cases, std::span<const HostArray> arrays);
/// Fills the scales of k and v with numbers around 1; with edge cases, some are small, large or, of a row, 0.
void fill_scales(const Settings& settings, std::uint64_t seed, bool edge_cases, std::span<const HostArray> arrays);
/// Fills positions of k or v, and of their scales, that no length reaches with NaN.
void fill_unused_positions(const Settings& settings, Side side, std::span<const HostArray> arrays);

}  // namespace tunesmith::attention
