#pragma once
// The block mask of mask_mod (block_mask.cuh): its layout, and the kernel that computes it. Internal to templates/.

#include <cstdint>
#include <string>

#include "templates/attention/settings.h"
#include "templates/op.h"

namespace tunesmith::attention {

// As in attention/block_mask.cuh; generated sources assert it.
inline constexpr std::int64_t mask_tile = 64, block_mask_at = 128, mask_tile_threads = 512;

/// (batches, heads, rows, 2, words) words of 32 bits.
struct BlockMaskLayout {
  std::int64_t batches = 0, heads = 0;  ///< 1: the same for all
  std::int64_t rows = 0, words = 0;

  /// Empty without mask_mod.
  static BlockMaskLayout of(const Settings& settings);
  static BlockMaskLayout of(const AttentionProblem& problem);
  std::int64_t elements() const noexcept { return batches * heads * rows * 2 * words; }
  /// Words between batch entries, or heads; 0: shared by all.
  std::int64_t batch_stride() const noexcept { return batches == 1 ? 0 : heads * head_stride_of_one(); }
  std::int64_t head_stride() const noexcept { return heads == 1 ? 0 : head_stride_of_one(); }

 private:
  std::int64_t head_stride_of_one() const noexcept { return rows * 2 * words; }
};

/// Classifies every tile as partial, which is right for any mask.
void fill_block_mask(const HostArray& array);

/// Returns the entry that computes the block mask, for kernels whose parameters are a `params` with the AttentionParams
/// `member`; empty without mask_mod.
std::string block_mask_entry(const Settings& settings, const std::string& params, const std::string& member);
/// Returns its launch.
KernelLaunch block_mask_launch(const Settings& settings);

}  // namespace tunesmith::attention
