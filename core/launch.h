#pragma once
// How to launch compiled kernels. An operation's descriptor makes a launch plan; a device executes it.

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
  bool cooperative = false;  ///< all blocks must be resident at once, because the kernel has a grid barrier
  /// Programmatic dependent launch (sm_90 and later): the kernel may start before the plan's previous one ends, and waits
  /// for it with griddepcontrol.wait.
  bool overlaps = false;
};

/// Required contents of a workspace when a launch begins; decides whether plans can share it.
enum class WorkspaceUse : std::uint8_t {
  own,      ///< what this plan's previous launch on the stream left: no other plan may write to it
  zeros,    ///< zeros in its first LaunchPlan::workspace_zeros bytes, which every launch restores
  scratch,  ///< anything
};

/// Everything needed to run a problem once: kernels in stream order, which all take the same parameter block by value.
/// Without kernels there is nothing to do (zero rows).
struct LaunchPlan {
  /// The place of an array's address in the parameter block, and its requirements.
  struct Pointer {
    std::string array;              ///< name, e.g. "x"
    std::uint32_t offset = 0;       ///< in `params`, bytes
    std::uint32_t alignment = 1;    ///< required alignment of the address in bytes; a power of two
    std::int64_t extent_bytes = 0;  ///< from the address to the end of the last element; 0: not accessed
    bool written = false;
    bool optional = false;  ///< may be nullptr
    int in_place_of = -1;   ///< position of the input that this output may equal; otherwise arrays must not overlap
    /// The array has gaps: its elements are in the first block_bytes of every period_bytes. Another array with the same
    /// period may lie in the gaps, such as values between the keys of a cache. 0: no gaps.
    std::int64_t period_bytes = 0, block_bytes = 0;
  };

  /// A CUtensorMap in the parameter block: describes an array of up to five dimensions for TMA (sm_90 and later). It is
  /// encoded at every launch with the array's address; a null address leaves zeros. TMA reads zeros outside of the sizes and
  /// does not write there, with one exception (seen on an H200): a store completes the last 16 bytes of a row. So rows that
  /// are followed by other data must be multiples of 16 bytes. Interleave is none, element strides are 1.
  struct TensorMap {
    static constexpr std::uint32_t bytes = 128, alignment = 64;
    static constexpr int max_rank = 5;

    int array = 0;                               ///< position in `pointers`; the address is aligned to at least 16 bytes
    std::uint32_t offset = 0;                    ///< in `params`, a multiple of 64
    DType dtype = DType::bf16;                   ///< bf16, f16 or f32
    int rank = 0;                                ///< 1 to 5; dimension 0 is the innermost and contiguous
    std::array<std::int64_t, max_rank> sizes{};  ///< elements, 1 to 2^32
    std::array<std::int64_t, max_rank - 1> strides_bytes{};  ///< of dimensions 1 and up: multiples of 16 below 2^40
    /// Elements per copy, 1 to 256 in each dimension; the extent in dimension 0 is a multiple of 16 bytes.
    std::array<std::int64_t, max_rank> box{};
    int swizzle_bytes = 0;      ///< 0, 32, 64 or 128, and at least the extent of the box in dimension 0 unless 0
    int promotion_bytes = 128;  ///< L2 promotion: 0, 64, 128 or 256
    /// How far before the array's address the map begins: a multiple of 16. Kernels access nothing there.
    std::int64_t before_bytes = 0;
  };

  std::vector<KernelLaunch> kernels;
  std::size_t main_kernel = 0;         ///< position in `kernels` of the one that does most of the work
  std::vector<std::byte> params;       ///< strides, sizes and scalars filled in, addresses and tensor maps zero
  std::vector<Pointer> pointers;       ///< in the order of Op::arrays()
  std::vector<TensorMap> tensor_maps;  ///< may be empty
  std::int64_t workspace_bytes = 0;    ///< workspace per stream, 256-byte aligned, zeroed when it is allocated
  std::uint32_t workspace_offset = 0;  ///< in `params`; used when workspace_bytes > 0
  WorkspaceUse workspace_use = WorkspaceUse::own;
  /// Outputs that are sums in any order: two runs may differ by rounding. The tuner checks each run against the reference.
  std::vector<std::string> sums_in_any_order{};
  static constexpr std::int64_t workspace_zeros = 16;  ///< bytes, for WorkspaceUse::zeros
};

}  // namespace tunesmith
