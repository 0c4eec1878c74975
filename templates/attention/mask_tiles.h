#pragma once
// The classes of tiles that mask_mod leaves (attention_mask_tiles.cuh): where they are, and the kernel that finds them out.
// Internal to templates/.

#include <cstdint>
#include <string>

#include "templates/attention/problem.h"

namespace tunesmith::attention {

// As in attention_mask_tiles.cuh; generated sources assert it.
inline constexpr std::int64_t mask_tile = 64, mask_tiles_at = 128, mask_tile_threads = 512;

/// (batches, heads, rows, 2, words) words of 32 bits.
struct MaskTilesLayout {
  std::int64_t batches = 0, heads = 0;  ///< 1 where one serves all
  std::int64_t rows = 0, words = 0;

  /// Of a problem with a mask_mod; of another one nothing.
  static MaskTilesLayout of(const Settings& settings);
  std::int64_t elements() const noexcept { return batches * heads * rows * 2 * words; }
  /// Words from one batch entry, or head, to the next; 0: one serves all.
  std::int64_t batch_stride() const noexcept { return batches == 1 ? 0 : heads * head_stride_of_one(); }
  std::int64_t head_stride() const noexcept { return heads == 1 ? 0 : head_stride_of_one(); }

 private:
  std::int64_t head_stride_of_one() const noexcept { return rows * 2 * words; }
};

/// Of MaskTiles::write and read.
ArrayInfo mask_tiles_info(const Settings& settings);
/// Words that say nothing, so that nothing wrong comes of them: some of every tile is kept, of no tile everything.
void fill_mask_tiles(const HostArray& array);

/// The entry that finds the classes out, for kernels whose parameters are a `params`, of which `member` is an
/// AttentionParams; empty without mask_mod.
std::string mask_tiles_entry(const Settings& settings, const std::string& params, const std::string& member);
/// Launches it.
KernelLaunch mask_tiles_launch(const Settings& settings);

}  // namespace tunesmith::attention
