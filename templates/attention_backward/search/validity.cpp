// Which configurations of attention's backward pass a device can run, and why not.

#include <algorithm>

#include "templates/attention_backward/aux_gradient.h"
#include "templates/attention_backward/search/config.h"

namespace tunesmith::attention_backward {
namespace {

std::string text(std::int64_t number) { return std::to_string(number); }

/// Returns the reason if `registers` of a thread are more than `most`; empty: they are not. `purpose`: " for dq".
std::string why_too_many_registers(int registers, int most, const std::string& purpose = {}) {
  if (registers <= most) return {};
  return "tiles of these sizes take " + text(registers) + " registers a thread" + purpose + "; there are " + text(most);
}

/// The same for the dynamic shared memory of a block.
std::string why_too_much_memory(std::int64_t bytes, const DeviceInfo& device, const std::string& purpose = {}) {
  if (bytes <= device.smem_bytes_per_block) return {};
  return "tiles of these sizes take " + text(bytes) + " bytes of shared memory" + purpose + "; a block has " +
         text(device.smem_bytes_per_block);
}

std::string why_simt_invalid(const TypedConfig& config, const DeviceInfo& device) {
  if (std::string reason = why_too_many(config.threads, device); !reason.empty()) return reason;
  const int down = config.threads / 16;
  if (config.tile_q % down != 0 || config.tile_kv % down != 0)
    return "threads / 16 = " + text(down) + " threads share the rows of a tile; tile_q and tile_kv must be " +
           "multiples, and are " + text(config.tile_q) + " and " + text(config.tile_kv);
  return {};
}

std::string why_mma_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  if (device.arch.number() < 80) return "mma needs sm_80 or later; the device is " + tunesmith::name(device.arch);
  if (settings.forward.dtype == DType::f32) return "mma multiplies f16 and bf16; dtype is f32";
  for (const Pass pass : {Pass::keys, Pass::queries}) {
    const MmaPass& mma = config.mma(pass);
    const int owners = mma.split ? mma.warps / 2 : mma.warps;
    if (mma.split && mma.warps % 2 != 0) return "kv_split pairs warps; kv_warps is " + text(mma.warps);
    if (mma.kept != 16 * owners && mma.kept != 32 * owners)
      return std::string(pass == Pass::keys ? "kv_kept" : "q_kept") + " is " + text(mma.kept) + " with " + text(owners) +
             " warps or pairs of them; each has 16 or 32 rows";
  }
  return {};
}

std::string why_head_split_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  const attention::Settings& forward = settings.forward;
  const std::string start = "head_split is " + text(config.head_split) + "; ";
  if (config.roles != Roles::keys || config.cluster > 0) return start + "allowed: only with roles=keys and cluster=0";
  if (config.is_ordered(settings)) return start + "with deterministic=1 a block has all query heads of its key head";
  if (forward.group() < config.head_split)
    return start + "allowed: at most " + text(forward.group()) + ", the query heads of a key head";
  if (config.head_split > device.max_cluster_blocks)
    return start + "the device's clusters have at most " + text(device.max_cluster_blocks) + " blocks";
  const std::int64_t sums = 4 * config.kept(Pass::keys) * std::max(forward.head_dim, forward.head_dim_v);
  const std::int64_t tiles = (slabs(forward.head_dim) + slabs(forward.head_dim_v)) * config.stages * config.tile_q * 128;
  if (sums > tiles)
    return start + "dk or dv of a block takes " + text(sums) + " bytes in the place of Q and dO, which have " + text(tiles);
  return {};
}

std::string why_kernels_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  const TypedConfig defaults;
  if (config.kernels == 1) {
    if (config.dq_tile_q != defaults.dq_tile_q || config.dq_tile_kv != defaults.dq_tile_kv ||
        config.dq_stages != defaults.dq_stages)
      return "dq_tile_q, dq_tile_kv or dq_stages is set, but kernels is 1; allowed: only with kernels=2";
    return {};
  }
  if (config.cluster > 0 || config.adders)
    return "kernels is 2; allowed: only with cluster=0 and adders=0, because it has no sums of dq";
  if (std::string reason = why_too_many_registers(config.registers_needed(Pass::queries, settings.forward), 240, " for dq");
      !reason.empty())
    return reason;
  return why_too_much_memory(config.smem_bytes(Pass::queries, settings), device, " for dq");
}

std::string why_wgmma_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  const attention::Settings& forward = settings.forward;
  if (tunesmith::name(device.arch) != "sm_90a") return "wgmma needs sm_90a; the device is " + tunesmith::name(device.arch);
  if (forward.dtype == DType::f32) return "wgmma multiplies f16 and bf16; dtype is f32";
  if (forward.head_dim % 16 != 0 || forward.head_dim_v % 16 != 0 || forward.head_dim > 256 || forward.head_dim_v > 256)
    return "wgmma needs head dimensions that are multiples of 16 up to 256; head_dim is " + text(forward.head_dim) +
           " and head_dim_v is " + text(forward.head_dim_v);
  if (config.roles == Roles::gradients && (config.tile_q != 64 || !config.ahead))
    return "roles=gradients needs tile_q=64 and ahead=1; tile_q is " + text(config.tile_q) + " and ahead is " +
           text(config.ahead ? 1 : 0);
  if (config.roles == Roles::gradients && settings.dslopes && forward.dropout > 0 &&
      (forward.softcap != 0 || !forward.score_mod.empty()))
    return "roles=gradients cannot compute dslopes with dropout and a softcap or a score_mod: both warpgroups would have a "
           "share";
  if (config.cluster > 0) {
    if (config.roles == Roles::gradients) return "cluster is " + text(config.cluster) + "; allowed with roles=gradients: 0";
    if (config.cluster * config.kept(Pass::keys) < forward.seq_kv)
      return "cluster is " + text(config.cluster) + ", which holds " + text(config.cluster * config.kept(Pass::keys)) +
             " keys; seq_kv is " + text(forward.seq_kv);
    if (config.cluster == 8 && forward.head_dim % 32 != 0)
      return "cluster is 8 and head_dim is " + text(forward.head_dim) + "; 8 blocks share multiples of 32 columns";
    if (config.cluster > device.max_cluster_blocks)
      return "cluster is " + text(config.cluster) + "; the device's clusters have at most " +
             text(device.max_cluster_blocks) + " blocks";
  }
  if (config.head_split > 0)
    if (std::string reason = why_head_split_invalid(config, settings, device); !reason.empty()) return reason;
  if (config.adders && (config.roles == Roles::gradients || config.cluster > 0))
    return "adders is 1; allowed: only with roles=keys and cluster=0";
  if (std::string reason = why_kernels_invalid(config, settings, device); !reason.empty()) return reason;
  if (config.adders && settings.deterministic)
    return "adders is 1; with deterministic=1 all kernels of roles=keys have the fourth warpgroup, and adders is 0";
  if (config.persistent &&
      (!config.separate_adders(settings) || config.head_split > 0 || config.ahead || config.kernels == 2))
    return "persistent is 1; allowed: only with a fourth warpgroup (adders=1, or deterministic=1 and roles=keys), "
           "head_split=0, ahead=0 and kernels=1";
  if (settings.rows() == 0 || forward.extents(Side::k).rows == 0)
    return "TMA cannot read empty arrays, and there are no queries or no keys";
  for (const Side side : {Side::q, Side::k, Side::v}) {
    if (forward.vector(side) < 8)
      return std::string("TMA needs rows that are aligned to 16 bytes; those of ") +
             attention::side_names[static_cast<std::size_t>(side)] + " are not";
    if (forward.broadcasts(side))
      return std::string("TMA needs strides above 0; ") + attention::side_names[static_cast<std::size_t>(side)] +
             " has a stride of 0";
  }
  for (const GradientTensor& gradient : gradient_tensors) {
    const Tensor& tensor = settings.*gradient.tensor;
    if (forward.vector(gradient.side, tensor) < 8)
      return std::string("TMA needs rows that are aligned to 16 bytes; those of ") + gradient.name + " are not";
    if (forward.broadcasts(gradient.side, tensor))
      return std::string("TMA needs strides above 0; ") + gradient.name + " has a stride of 0";
  }
  // Measured with ptxas: S of the next 128 queries leaves no registers for more. In blocks of more than 384 threads ptxas
  // serializes products that it does not serialize otherwise.
  const bool masked = !forward.mask_mod.empty();
  const bool crowded =
      config.ahead && config.roles == Roles::keys &&
      (config.separate_adders(settings) || (config.tile_q == 128 && (settings.dslopes || forward.varlen || masked)));
  const bool random = config.tile_q == 128 && forward.dropout > 0;  // bits of 64 pairs of a thread
  // As WgmmaBackwardRegisters.
  const int most = !config.separate_dq() ? 208 : masked || config.roles == Roles::gradients ? 216 : 240;
  const int registers = config.registers_needed(Pass::keys, forward) + (crowded ? 24 : 0) + (random ? 32 : 0);
  if (std::string reason = why_too_many_registers(registers, most); !reason.empty()) return reason;
  return why_too_much_memory(config.smem_bytes(Pass::keys, settings), device);
}

}  // namespace

std::string why_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  if (config.variant == Variant::wgmma) return why_wgmma_invalid(config, settings, device);
  if (std::string reason =
          config.variant == Variant::simt ? why_simt_invalid(config, device) : why_mma_invalid(config, settings, device);
      !reason.empty())
    return reason;
  for (const Pass pass : {Pass::keys, Pass::queries}) {
    const int limit = std::min(255, device.registers_per_sm / config.block_threads(pass, settings) / 8 * 8);
    if (std::string reason = why_too_many_registers(config.registers_needed(pass, settings.forward), limit); !reason.empty())
      return reason;
    if (std::string reason = why_too_much_memory(config.smem_bytes(pass, settings), device); !reason.empty()) return reason;
  }
  if (settings.daux.empty()) return {};
  return why_too_much_memory(aux_smem_bytes(config, settings), device, " for daux");
}

}  // namespace tunesmith::attention_backward
