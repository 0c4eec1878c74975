// Which configurations of attention a device can run, and why not.

#include <algorithm>

#include "templates/attention/search/config.h"
#include "templates/attention/search/split_config.h"

namespace tunesmith::attention {

int register_limit(const TypedConfig& config, const DeviceInfo& device) noexcept {
  return std::min(255, device.registers_per_sm / (config.block_threads() * config.blocks_per_sm) / 8 * 8);
}

std::string why_bytes_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  if (settings.kv_dtype != DType::e4m3) return {};
  if (device.arch.number() < 89)
    return "tensor cores take e4m3 keys and values on sm_89 and later; the device is " + tunesmith::name(device.arch);
  for (const auto& [name, value] : {std::pair("head_dim", settings.head_dim), std::pair("head_dim_v", settings.head_dim_v)})
    if (value % 16 != 0)
      return std::string(name) + " is " + std::to_string(value) + "; rows of e4m3 keys and values have a multiple of 16";
  if (config.tile_kv % 32 != 0)
    return "tile_kv is " + std::to_string(config.tile_kv) + "; tiles of e4m3 keys and values have a multiple of 32";
  return {};
}

namespace {

std::string why_simt_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  if (std::string reason = why_too_many(config.threads, device); !reason.empty()) return reason;
  if (config.tile_q % (config.threads / 16) != 0)
    return "tile_q is " + std::to_string(config.tile_q) + ", but threads / 16 = " + std::to_string(config.threads / 16) +
           " threads share its queries; it must be a multiple";
  if (const int registers = config.registers_needed(settings); registers > 255)
    return "tiles of these sizes take " + std::to_string(registers) + " registers a thread; there are 255";
  if (config.threads * config.registers_needed(settings) > device.registers_per_sm)
    return "tiles of these sizes do not fit into the registers";
  return {};
}

std::string why_wgmma_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  if (tunesmith::name(device.arch) != "sm_90a") return "wgmma needs sm_90a; the device is " + tunesmith::name(device.arch);
  if (settings.dtype == DType::f32) return "wgmma multiplies f16 and bf16; dtype is f32";
  if (settings.kv_dtype == DType::e4m3) return "wgmma has no 8-bit keys and values; kv_dtype is e4m3";
  if (settings.page_size % 8 != 0)
    return "TMA loads parts of pages of 8 keys, after which the swizzle of shared memory repeats; page_size is " +
           std::to_string(settings.page_size);
  for (const Side side : {Side::q, Side::k, Side::v, Side::o})
    if (settings.vector(side) < 8)
      return std::string("TMA needs rows that are aligned to 16 bytes; those of ") +
             side_names[static_cast<std::size_t>(side)] + " are not";
  if (settings.extents(Side::k).rows == 0 || (settings.page_size > 0 && settings.pages == 0))
    return "TMA cannot read empty arrays, and there are no keys";
  for (const Side side : {Side::q, Side::k, Side::v})
    if (settings.broadcasts(side))
      return std::string("TMA needs strides above 0; ") + side_names[static_cast<std::size_t>(side)] + " has a stride of 0";
  if (config.ping_pong && config.tile_q == 64) return "ping_pong is 1, but tile_q is 64: there is one warpgroup";
  // K/V tiles that are fully masked for the first warpgroup of a block and not for the last one.
  if (const std::int64_t ahead = (config.tile_q - 64 + config.tile_kv - 1) / config.tile_kv;
      settings.bounded_right() && !config.ping_pong && ahead > config.stages)
    return "the first queries of a block would have to skip " + std::to_string(ahead) +
           " K/V tiles; they can skip at most " + std::to_string(config.stages) + ", the stages";
  const int limit = config.tile_q == 256 ? 112 : config.tile_q == 192 ? 160 : 240;
  if (const int registers = config.registers_needed(settings); registers > limit)
    return "tiles of these sizes take " + std::to_string(registers) + " registers a thread; there are " +
           std::to_string(limit);
  if (config.o_slabs > slabs(settings.head_dim_v))
    return "o_slabs is " + std::to_string(config.o_slabs) + ", but the output has " +
           std::to_string(slabs(settings.head_dim_v)) + " times 64 columns";
  return {};
}

std::string why_mma_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  if (device.arch.number() < 80) return "mma needs sm_80 or later; the device is " + tunesmith::name(device.arch);
  if (settings.dtype == DType::f32) return "mma multiplies f16 and bf16; dtype is f32";
  if (std::string reason = why_bytes_invalid(config, settings, device); !reason.empty()) return reason;
  if (config.tile_q != 16 * config.warps && config.tile_q != 32 * config.warps)
    return "tile_q is " + std::to_string(config.tile_q) + " with " + std::to_string(config.warps) +
           " warps; each has 16 or 32 queries";
  const int limit = register_limit(config, device);
  if (const int registers = config.registers_needed(settings); registers > limit)
    return "tiles of these sizes take " + std::to_string(registers) + " registers a thread; there are " +
           std::to_string(limit);
  return {};
}

}  // namespace

std::string why_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  std::string reason;
  switch (config.variant) {
    case Variant::simt: reason = why_simt_invalid(config, settings, device); break;
    case Variant::wgmma: reason = why_wgmma_invalid(config, settings, device); break;
    case Variant::mma: reason = why_mma_invalid(config, settings, device); break;
    case Variant::split: reason = why_split_invalid(config, settings, device); break;
  }
  if (!reason.empty()) return reason;
  if (const std::int64_t bytes = config.smem_bytes(settings); bytes > device.smem_bytes_per_block)
    return "tiles of these sizes take " + std::to_string(bytes) + " bytes of shared memory; a block has " +
           std::to_string(device.smem_bytes_per_block);
  return {};
}

}  // namespace tunesmith::attention
