#pragma once
// Properties of a device that determine which configurations are valid and which are likely to be fast.

#include <cstdint>
#include <string>

#include "tunesmith/types.h"

namespace tunesmith {

struct DeviceInfo {
  enum class Kind : std::uint8_t { cuda, host };

  Kind kind = Kind::cuda;
  int ordinal = 0;
  std::string name;  ///< e.g. "NVIDIA H200"
  Arch arch;         ///< architecture that kernels are compiled for
  int sm_count = 0;  ///< multiprocessors
  int max_threads_per_block = 1024;
  int max_threads_per_sm = 2048;
  int registers_per_sm = 65536;           ///< 32-bit registers
  std::int64_t smem_bytes_per_block = 0;  ///< opt-in maximum of static plus dynamic shared memory
  std::int64_t smem_bytes_per_sm = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;  ///< total device memory
  double memory_gb_per_s = 0;     ///< peak bandwidth of the device memory
  int max_cluster_blocks = 1;     ///< 8 on sm_90 and later (the portable size), otherwise 1
  bool mig = false;               ///< a MIG instance; it never shares tuning records with a full GPU
  std::string partition;          ///< MIG profile; empty for a full GPU

  /// Returns the device class: name, architecture, SM count, L2 size and partition. Devices of a class share tuning records.
  std::string device_class() const;
  /// Returns whether a kernel may start while the one before it ends: programmatic dependent launch, from sm_90 on.
  bool overlaps_launches() const { return kind == Kind::cuda && arch.number() >= 90; }
};

/// Returns typical properties of an architecture, so that default configurations, sources and compile-only prewarming work
/// without a GPU. Its name is e.g. "generic sm_90a".
DeviceInfo generic_device(const Arch& arch);

}  // namespace tunesmith
