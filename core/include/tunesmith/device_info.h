#pragma once
// Facts about a device that decide which configurations are valid and which are likely to be fast.

#include <cstdint>
#include <string>

#include "tunesmith/types.h"

namespace tunesmith {

struct DeviceInfo {
  enum class Kind : std::uint8_t { cuda, host };

  Kind kind = Kind::cuda;
  int ordinal = 0;
  std::string name;  ///< "NVIDIA H200"
  Arch arch;         ///< what generated code is compiled for
  int sm_count = 0;  ///< multiprocessors
  int max_threads_per_block = 1024;
  int max_threads_per_sm = 2048;
  int registers_per_sm = 65536;           ///< 32-bit registers
  std::int64_t smem_bytes_per_block = 0;  ///< opt-in maximum of dynamic + static shared memory
  std::int64_t smem_bytes_per_sm = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;  ///< total device memory
  int max_cluster_blocks = 1;     ///< 8 on sm_90 and later (portable), 1 elsewhere
  bool mig = false;               ///< a slice of a GPU: never shares tuning records with the whole one
  std::string partition;          ///< MIG profile or empty

  /// Devices of one class share tuning records: name, architecture, SM count, L2 size, partition.
  std::string device_class() const;
};

/// Typical facts for an architecture that is not in this machine, so that the default configuration, source and
/// compile-only warm-up work without a GPU. The name says that it is a stand-in, e.g. "generic sm_90a".
DeviceInfo generic_device(const Arch& arch);

}  // namespace tunesmith
