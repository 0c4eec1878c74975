#pragma once
// How compiled kernels are started: the result of a descriptor's geometry, the input of a device.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tunesmith/types.h"

namespace tunesmith {

/// One kernel of a launch.
struct KernelLaunch {
  std::string entry;          ///< extern "C" name in the generated source
  Dim3 grid, block, cluster;  ///< blocks, threads, blocks per cluster (1,1,1: no cluster)
  std::int64_t dynamic_smem_bytes = 0;
  bool cooperative = false;  ///< all blocks resident at once: the kernel has a grid barrier
  /// The kernel may start while the plan's one before it ends, and waits itself (griddepcontrol.wait): sm_90 and later.
  bool overlaps = false;
};

/// Everything needed to run a problem once: kernels in stream order, all taking the same parameter block by value.
/// No kernels means there is nothing to do (zero rows).
struct LaunchPlan {
  /// Where an array's address goes in the parameter block, and what is demanded of it.
  struct Pointer {
    std::string array;              ///< "x"
    std::uint32_t offset = 0;       ///< in `params`, bytes
    std::uint32_t alignment = 1;    ///< bytes the address must be a multiple of; a power of two
    std::int64_t extent_bytes = 0;  ///< from the address to the end of the last element; 0: never touched
    bool written = false;
    bool optional = false;  ///< may be nullptr
    int in_place_of = -1;   ///< position of the input that this output may be; they never overlap otherwise
  };

  /// A CUtensorMap in the parameter block: an array of up to five dimensions as the copy engine of sm_90 and later (TMA) is
  /// told about it. Encoded at every launch, when the array's address is known; a null address leaves zeros. What a box
  /// holds beyond the sizes is read as zero and not written, but for what completes a row's last 16 bytes, which is (seen on
  /// an H200): where something lies behind rows, let them be multiples of 16 bytes. Interleave none, element strides 1.
  struct TensorMap {
    static constexpr std::uint32_t bytes = 128, alignment = 64;
    static constexpr int max_rank = 5;

    int array = 0;                               ///< position in `pointers`; that address is a multiple of at least 16
    std::uint32_t offset = 0;                    ///< in `params`, a multiple of 64
    DType dtype = DType::bf16;                   ///< bf16, f16 or f32
    int rank = 0;                                ///< 1 to 5; dimension 0 is the innermost, its elements lie side by side
    std::array<std::int64_t, max_rank> sizes{};  ///< elements, 1 to 2^32
    std::array<std::int64_t, max_rank - 1> strides_bytes{};  ///< of dimensions 1 and up: multiples of 16 below 2^40
    /// Elements that one copy moves, 1 to 256 of each dimension; a row of it, dimension 0, is a multiple of 16 bytes.
    std::array<std::int64_t, max_rank> box{};
    int swizzle_bytes = 0;      ///< 0, 32, 64 or 128: the span whose 16-byte chunks are permuted; a row fits
    int promotion_bytes = 128;  ///< 0, 64, 128 or 256: what a read of device memory brings into L2
  };

  std::vector<KernelLaunch> kernels;
  std::size_t main_kernel = 0;         ///< position in `kernels` of the one that does most of the work
  std::vector<std::byte> params;       ///< strides, sizes and scalars filled in, addresses and tensor maps zero
  std::vector<Pointer> pointers;       ///< in the order of Op::arrays()
  std::vector<TensorMap> tensor_maps;  ///< none for a kernel that has none
  std::int64_t workspace_bytes = 0;    ///< scratch memory for each stream, 256-byte aligned, zeroed once when it is made
  std::uint32_t workspace_offset = 0;  ///< in `params`; used when workspace_bytes > 0
};

}  // namespace tunesmith
