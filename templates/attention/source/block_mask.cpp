#include "templates/attention/source/block_mask.h"

#include <algorithm>

#include "core/half.h"
#include "templates/attention/source/modification.h"
#include "templates/folded_grid.h"
#include "tunesmith/error.h"

namespace tunesmith::attention {
namespace {

std::int64_t tiles(std::int64_t positions) { return positions / mask_tile + (positions % mask_tile > 0 ? 1 : 0); }

std::string asserts(const std::string& name, std::int64_t value) {
  return "static_assert(tunesmith::" + name + " == " + std::to_string(value) + ", \"the host counts on it\");\n";
}

}  // namespace

BlockMaskLayout BlockMaskLayout::of(const Settings& settings) {
  BlockMaskLayout layout;
  if (settings.mask_mod.empty()) return layout;
  // Packed sequences, and sequences with lengths in device memory, differ in length.
  const bool one_for_batches =
      !settings.varlen && !settings.kv_lengths && !mask_may_use(settings.mask_mod, MaskPlace::batch);
  layout.batches = one_for_batches ? std::min<std::int64_t>(settings.batch, 1) : settings.batch;
  layout.heads = mask_may_use(settings.mask_mod, MaskPlace::head) ? settings.heads : 1;
  layout.rows = settings.varlen && settings.total_q == 0 ? 0 : tiles(settings.seq_q);
  layout.words = (tiles(settings.seq_kv) + 31) / 32;
  return layout;
}

BlockMaskLayout BlockMaskLayout::of(const AttentionProblem& problem) {
  Settings sizes;
  sizes.batch = problem.batch;
  sizes.heads = problem.heads;
  sizes.seq_q = problem.seq_q;
  sizes.seq_kv = problem.seq_kv.value_or(problem.page_size ? max_paged_keys(problem) : problem.seq_q);
  sizes.varlen = problem.varlen;
  sizes.total_q = problem.total_q.value_or(1);
  sizes.kv_lengths = has_kv_lengths(problem);
  sizes.mask_mod = problem.mask_mod;
  return of(sizes);
}

void fill_block_mask(const HostArray& array) {
  const std::int64_t words = array.info.shape.back();
  for (std::int64_t i = 0; i < array.info.elements(); ++i)
    write_integer(DType::i32, array.data, i, i / words % 2 == 0 ? -1 : 0);
}

std::string block_mask_entry(const Settings& settings, const std::string& params, const std::string& member) {
  if (settings.mask_mod.empty()) return {};
  return "\n// What mask_mod leaves of tiles, before anything else.\n" + asserts("mask_tile", mask_tile) +
         asserts("block_mask_at", block_mask_at) + asserts("mask_tile_threads", mask_tile_threads) +
         "extern \"C\" __global__ void __launch_bounds__(tunesmith::mask_tile_threads)\n"
         "attention_block_mask(const __grid_constant__ tunesmith::" +
         params + " params) {\n  tunesmith::classify_block_mask<shape, " + modification_type(settings) + ">(" + member +
         ");\n}\n";
}

KernelLaunch block_mask_launch(const Settings& settings) {
  const BlockMaskLayout layout = BlockMaskLayout::of(settings);
  KernelLaunch launch;
  launch.entry = "attention_block_mask";
  launch.grid = folded_grid(layout.batches * layout.heads * layout.rows * layout.words);
  launch.block = {static_cast<std::uint32_t>(mask_tile_threads), 1, 1};
  return launch;
}

}  // namespace tunesmith::attention

namespace tunesmith {

BlockMaskShape block_mask_shape(const AttentionProblem& problem) {
  try {
    const auto layout = attention::BlockMaskLayout::of(problem);
    return {layout.batches, layout.heads, layout.rows, layout.words};
  } catch (const Error&) {
    return {};  // complete() reports what is wrong with mask_mod
  }
}

}  // namespace tunesmith
