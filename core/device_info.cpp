#include "tunesmith/device_info.h"

namespace tunesmith {

std::string DeviceInfo::device_class() const {
  std::string text = name + ";" + tunesmith::name(arch) + ";sm=" + std::to_string(sm_count) +
                     ";l2=" + std::to_string(l2_bytes >> 20) + "MiB";
  if (mig) text += ";mig=" + partition;
  return text;
}

// Sizes are from the CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability". SM counts, cache
// sizes and bandwidths describe the most common GPU of the architecture (T4, A100, A10, L4, H100 SXM, B200, RTX 5090).
DeviceInfo generic_device(const Arch& arch) {
  struct Facts {
    int up_to, sm_count, threads_per_sm;
    std::int64_t smem_block_kib, smem_sm_kib, l2_mib, memory_gib;
    double gb_per_s;
  };
  static constexpr Facts table[] = {
      {75, 40, 1024, 64, 64, 4, 16, 320},      {80, 108, 2048, 163, 164, 40, 40, 1555},
      {86, 72, 1536, 99, 100, 6, 24, 600},     {89, 58, 1536, 99, 100, 48, 24, 300},
      {99, 132, 2048, 227, 228, 50, 80, 3350}, {119, 148, 2048, 227, 228, 126, 180, 8000},
      {999, 170, 1536, 99, 100, 96, 32, 1792},
  };
  const Facts* facts = table;
  while (facts->up_to < arch.number()) ++facts;
  DeviceInfo info;
  info.name = "generic " + tunesmith::name(arch);
  info.arch = arch;
  info.sm_count = facts->sm_count;
  info.max_threads_per_sm = facts->threads_per_sm;
  info.smem_bytes_per_block = facts->smem_block_kib << 10;
  info.smem_bytes_per_sm = facts->smem_sm_kib << 10;
  info.l2_bytes = facts->l2_mib << 20;
  info.memory_bytes = facts->memory_gib << 30;
  info.memory_gb_per_s = facts->gb_per_s;
  info.max_cluster_blocks = arch.major >= 9 ? 8 : 1;
  return info;
}

}  // namespace tunesmith
