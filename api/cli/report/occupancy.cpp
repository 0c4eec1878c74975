#include "api/cli/report/occupancy.h"

namespace tunesmith::cli {
namespace {

constexpr int warp_size = 32;

int max_blocks_per_sm(const Arch& arch) {
  switch (arch.number()) {
    case 75:
    case 86:
    case 87: return 16;
    case 89:
    case 120:
    case 121: return 24;
    default: return 32;
  }
}

constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

}  // namespace

Occupancy estimate_occupancy(const DeviceInfo& device, const KernelResources& resources, const KernelLaunch& launch) {
  constexpr std::int64_t registers_step = 256;  // granularity of a warp's registers
  constexpr std::int64_t warps_step = 4;        // granularity of warps: one per scheduler
  constexpr std::int64_t smem_step = 128;
  const std::int64_t reserved_smem = device.arch.number() >= 80 ? 1024 : 0;  // per block, for the system

  const std::int64_t warps = round_up(static_cast<std::int64_t>(launch.block.count()), warp_size) / warp_size;
  if (warps == 0) return {};
  Occupancy result{max_blocks_per_sm(device.arch), 0, "blocks"};
  const auto bound = [&](std::int64_t blocks, const char* limit) {
    if (blocks >= result.blocks) return;
    result.blocks = static_cast<int>(blocks);
    result.limit = limit;
  };
  bound(device.max_threads_per_sm / warp_size / warps, "threads");
  if (resources.registers > 0) {
    const std::int64_t per_warp = round_up(std::int64_t{resources.registers} * warp_size, registers_step);
    const std::int64_t warps_that_fit = device.registers_per_sm / per_warp / warps_step * warps_step;
    bound(warps_that_fit / warps, "registers");
  }
  const std::int64_t smem = resources.static_smem_bytes + launch.dynamic_smem_bytes;
  if (smem > 0) bound(device.smem_bytes_per_sm / (round_up(smem, smem_step) + reserved_smem), "shared memory");
  result.warp_share = static_cast<double>(result.blocks * warps * warp_size) / device.max_threads_per_sm;
  return result;
}

}  // namespace tunesmith::cli
