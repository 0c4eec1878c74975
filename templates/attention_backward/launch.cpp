// How the kernels of attention's backward pass are launched.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "templates/attention/source/block_mask.h"
#include "templates/attention/source/kv_layout.h"
#include "templates/attention_backward/aux_gradient.h"
#include "templates/attention_backward/kernel_layout.h"
#include "templates/attention_backward/op.h"
#include "templates/folded_grid.h"

namespace tunesmith {

using namespace attention_backward;

namespace {

/// Adds the maps of wgmma. Boxes have 64 columns (128 bytes) and the positions of a tile, or, if two kernels use the maps, a
/// number of positions that divides the tiles of both.
void use_tensor_maps(const TypedConfig& config, const Settings& settings, LaunchPlan& plan) {
  struct Mapped {
    const char* array;
    Side side;
    const Tensor& tensor;
    std::int64_t rows;
    std::size_t offset;
  };
  const attention::Settings& forward = settings.forward;
  const std::int64_t q_box = config.separate_dq() ? 64 : config.tile_q;
  const std::int64_t kv_box = !config.separate_dq() ? config.kept(Pass::keys) : config.dq_tile_kv % 64 == 0 ? 64 : 32;
  const std::array<Mapped, 6> mapped{{{"q", Side::q, forward.tensor(Side::q), q_box, offsetof(WgmmaBackwardParams, q)},
                                      {"k", Side::k, forward.tensor(Side::k), kv_box, offsetof(WgmmaBackwardParams, k)},
                                      {"v", Side::v, forward.tensor(Side::v), kv_box, offsetof(WgmmaBackwardParams, v)},
                                      {"dout", Side::o, settings.dout, q_box, offsetof(WgmmaBackwardParams, dout)},
                                      {"dk", Side::k, settings.dk, 64, offsetof(WgmmaBackwardParams, dk)},
                                      {"dv", Side::v, settings.dv, 64, offsetof(WgmmaBackwardParams, dv)}}};
  for (const auto& [array, side, tensor, rows, offset] : mapped) {
    const auto found = std::ranges::find(plan.pointers, array, &LaunchPlan::Pointer::array);
    LaunchPlan::TensorMap map = attention::tensor_map(forward, side, tensor, rows);
    map.array = static_cast<int>(found - plan.pointers.begin());
    map.offset = static_cast<std::uint32_t>(offset);
    if (forward.varlen) {  // see MapPlace
      const std::int64_t longest = forward.length(side), row_bytes = map.strides_bytes[0];
      map.sizes[3] = map.sizes[1] + 1;
      map.sizes[1] = longest;
      map.strides_bytes[2] = row_bytes;
      map.before_bytes = longest * row_bytes;
    }
    plan.tensor_maps.push_back(map);
  }
}

}  // namespace

LaunchPlan ParsedAttentionBackward::plan_of(const TypedConfig& typed, const DeviceInfo& device) const {
  const Settings& settings = settings_;
  const attention::Settings& forward = settings.forward;
  const Params params = parameters(typed, settings, device);
  LaunchPlan plan;
  const bool wgmma = typed.variant == Variant::wgmma;
  plan.params.resize(argument_of(typed, settings).bytes);
  std::memcpy(plan.params.data(), &params, sizeof params);
  if (!settings.daux.empty()) {
    const AuxGradients aux = aux_parameters(settings, workspace_of(typed, settings).aux);
    const std::size_t at = wgmma ? offsetof(WgmmaBackwardAuxParams, aux) : offsetof(AttentionBackwardAuxParams, aux);
    std::memcpy(plan.params.data() + at, &aux, sizeof aux);
  }
  plan.workspace_offset = offsetof(Params, attention.workspace);
  for (const ArrayInfo& array : array_view())
    plan.pointers.push_back({array.name, pointer_offset(array.name, settings, wgmma),
                             static_cast<std::uint32_t>(array.alignment), array.extent_bytes(), array.output, array.optional,
                             -1});

  const std::int64_t rows = settings.rows();
  const bool has_queries = rows > 0 && forward.batch > 0 && forward.seq_q > 0;
  const bool has_keys = forward.batch > 0 && forward.seq_kv > 0 && forward.extents(Side::k).rows > 0;
  const auto add = [&](const KernelLaunch& launch) { plan.kernels.push_back(launch); };
  if (has_queries && forward.seq_kv > 0 && !forward.mask_mod.empty() && forward.block_mask != BlockMask::read)
    add(attention::block_mask_launch(forward));
  if (has_queries) add(folded_launch("attention_backward_prepare", prepare_blocks(settings, params), prepare_threads, 0));
  plan.main_kernel = plan.kernels.size();
  if (wgmma) {
    use_tensor_maps(typed, settings, plan);
    if (typed.has_sums() && !typed.is_ordered(settings)) plan.sums_in_any_order = {"dq"};
    std::int64_t blocks = params.kv_tiles * forward.kv_heads * forward.batch * typed.blocks_of_tile();
    if (typed.persistent) blocks = std::min<std::int64_t>(blocks, device.sm_count);
    KernelLaunch launch = folded_launch(keys_kernel(typed), blocks, typed.block_threads(Pass::keys, settings),
                                        typed.smem_bytes(Pass::keys, settings));
    if (const int cluster = std::max(typed.cluster, typed.head_split); cluster > 0) {
      launch.cluster = {static_cast<std::uint32_t>(cluster), 1, 1};
      launch.grid = folded_grid(blocks, launch.cluster.x);
    }
    launch.overlaps = device.overlaps_launches();
    add(launch);
    if (typed.separate_dq()) {
      launch = folded_launch("attention_backward_queries", params.attention.q_tiles * forward.heads * forward.batch,
                             typed.block_threads(Pass::queries, settings), typed.smem_bytes(Pass::queries, settings));
      launch.overlaps = device.overlaps_launches();
      add(launch);
    }
    if (typed.has_sums()) {
      launch = folded_launch("attention_backward_dq",
                             tiles(params.rows / 16 * slabs(forward.head_dim), wgmma_dq_threads / 32), wgmma_dq_threads, 0);
      launch.overlaps = device.overlaps_launches();
      add(launch);
    }
  }
  if (has_keys && !wgmma)
    add(folded_launch("attention_backward_keys", params.kv_tiles * forward.kv_heads * forward.batch,
                      typed.block_threads(Pass::keys, settings), typed.smem_bytes(Pass::keys, settings)));
  if (has_queries && !wgmma)
    add(folded_launch("attention_backward_queries", params.attention.q_tiles * forward.heads * forward.batch,
                      typed.block_threads(Pass::queries, settings), typed.smem_bytes(Pass::queries, settings)));
  if (has_heads_kernel(settings)) add(folded_launch("attention_backward_heads", forward.heads, heads_threads, 0));
  add_aux_launches(typed, settings, has_queries && has_keys, plan.kernels);
  if (!settings.deterministic)
    for (const std::string& array : settings.daux.arrays()) plan.sums_in_any_order.push_back(array);
  if (!plan.kernels.empty()) plan.workspace_bytes = workspace_of(typed, settings).end;
  plan.workspace_use = WorkspaceUse::scratch;  // kernels write what others read, and zero what they add to
  return plan;
}

}  // namespace tunesmith
