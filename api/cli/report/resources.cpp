#include "api/cli/report/resources.h"

#include "api/cli/report/occupancy.h"

namespace tunesmith::cli {

std::vector<Column> resource_columns() {
  return {{"kernel"},
          {"threads", true},
          {"registers", true},
          {"static smem B", true},
          {"dynamic smem B", true},
          {"stack B", true},
          {"spill stores B", true},
          {"spill loads B", true},
          {"blocks/SM", true},
          {"occupancy", true},
          {"limited by"}};
}

std::vector<std::vector<std::string>> resource_rows(const DeviceInfo& device, const LaunchPlan& plan, const Binary& binary) {
  std::vector<std::vector<std::string>> rows;
  for (const KernelLaunch& launch : plan.kernels) {
    const auto found = binary.resources.find(launch.entry);
    const KernelResources needs = found == binary.resources.end() ? KernelResources() : found->second;
    const Occupancy occupancy = estimate_occupancy(device, needs, launch);
    rows.push_back({launch.entry, std::to_string(launch.block.count()), std::to_string(needs.registers),
                    std::to_string(needs.static_smem_bytes), std::to_string(launch.dynamic_smem_bytes),
                    std::to_string(needs.local_bytes), std::to_string(needs.spill_store_bytes),
                    std::to_string(needs.spill_load_bytes), std::to_string(occupancy.blocks),
                    fixed(100 * occupancy.warp_share, 0) + " %", occupancy.limit});
  }
  return rows;
}

}  // namespace tunesmith::cli
