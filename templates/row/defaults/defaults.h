#pragma once
// The default of each variant and of special rows, among which default.cpp chooses. Functions return nothing if they have no
// default for such rows. Unless a comment says otherwise, configurations are well-formed, but not necessarily valid, and
// have no cache hints. Internal to templates/row.

#include <cstdint>
#include <optional>
#include <vector>

#include "templates/row/config.h"

namespace tunesmith::row {

// register_rows.cpp: rows in registers.

/// With more vectors per lane, a block is faster than a warp.
inline constexpr int max_vectors_of_a_lane = 8;

TypedConfig warp_default(const Shape& shape, const DeviceInfo& device);
TypedConfig block_default(const Shape& shape, const DeviceInfo& device);

/// Returns a valid block of 1024 threads that holds a row of 16-bit elements in half of a multiprocessor's registers, so
/// that one row is in flight while another one is computed. With cache hints.
std::optional<TypedConfig> two_rows_block(const Shape& shape, const DeviceInfo& device);

/// Returns the block for rows of columns that have sums over the rows and are loaded one or two at a time: 17 elements in a
/// thread at most. A lane of a warp would hold more of a row, and persistent blocks take 1.1 to 1.6 of the time.
std::optional<TypedConfig> narrow_summing_block(const Shape& shape, const DeviceInfo& device);
/// Returns a valid block of 64 threads for an aligned row of 16 bits whose terms replace its elements, in which each thread
/// keeps up to 4 vectors of exponentials; nothing for longer and for other rows. With cache hints.
std::optional<TypedConfig> gradient_block(const Shape& shape, const DeviceInfo& device);

// column_blocks.cpp: programs that read arrays [col], such as weights.

/// Returns a valid block in which a thread has up to 96 bytes of a row of 16 bits (160 of float32) and registers for arrays
/// [col], which it loads while it reduces the row; nothing for rows of 64 KiB and for programs in which more values in a
/// thread are faster. On an H200, 0.79 to 1.02 of the time of the blocks with the most rows (row_program/NOTES.md, "Blocks
/// of 96 bytes a thread"). With cache hints.
std::optional<TypedConfig> column_block(Access access, const Shape& shape, const DeviceInfo& device);

/// Returns a valid small block for aligned rows of 2 to 4 KiB of 16 bits where memory needs more loads in flight; nothing
/// for other rows and devices. On an H200, 0.84 to 1.0 of the time of warps. With cache hints.
std::optional<TypedConfig> small_column_block(const Shape& shape, const DeviceInfo& device);

/// Returns the block to use instead of `max_rows`, the block with the most resident rows. Where memory needs more loads in
/// flight, column_block(). Elsewhere, and where there is none, for aligned rows of 16 bits in programs of
/// several stages: up to 32 or 64 values in a thread, converted once, because each stage reads them again; longer rows
/// packed. On an H200, 0.75 to 1.00 of the time of `max_rows` (row_program/NOTES.md, "Programs of several stages convert
/// again").
TypedConfig program_block(const TypedConfig& max_rows, const Shape& shape, const DeviceInfo& device);

// small_problems.cpp: rows that are all on the chip at once.

/// Returns a valid warp or block with few accesses for each thread, if all rows of up to 32 KiB are resident at once;
/// nothing for larger problems and for programs. On an H100, 0.84 to 1.00 of the time of the other defaults (NOTES.md,
/// "Bytes in flight"). With cache hints.
std::optional<TypedConfig> small_problem(const Shape& shape, const DeviceInfo& device);

/// Returns a valid cluster for few long rows that are all resident at once; nothing for larger problems. On an H100, 0.68 to
/// 1.0 of the time of the other defaults, 0.88 on average, and 0.7 to 0.95 for programs (NOTES.md, "Few rows on the chip at
/// once: clusters instead of grids"). With cache hints.
std::optional<TypedConfig> small_cluster(const Shape& shape, const DeviceInfo& device);

// register_sums.cpp: sums of terms alone, rows in registers.

/// Returns a valid warp or block for a row of about 2 to 32 KiB, all of whose loads are in flight; nothing for other rows.
/// With cache hints.
std::optional<TypedConfig> register_sums(const Shape& shape, const DeviceInfo& device);
/// Returns blocks with other numbers of threads and registers.
std::vector<TypedConfig> sums_to_try(const Shape& shape, const DeviceInfo& device);

// shared_memory_rows.cpp: rows in registers and shared memory.

TypedConfig hybrid_default(const Shape& shape, const DeviceInfo& device);

/// Returns the smallest cluster whose blocks of 256 threads leave room for three on a multiprocessor; otherwise, and for two
/// arrays, two blocks of 512 threads. The former takes 0.94 to 1.00 of the time of the latter on an H100, since an exchange
/// has no fence (row_program/NOTES.md, "Clusters exchange messages"). With more of a row in registers, kernels would spill
/// at the exchange.
TypedConfig cluster_default(const Shape& shape, const DeviceInfo& device);

/// Returns a valid hybrid of 128 threads for two arrays with aligned rows of 16 bits, 4096 columns and more, that
/// take two to four times L2; nothing for others. On an H100, 0.97 to 1.0 of the time of blocks with rows in registers,
/// which need more threads for smaller problems (softmax/NOTES.md, "Gradients of about 24 MiB want more threads"). With
/// cache hints.
std::optional<TypedConfig> gradient_hybrid(const Shape& shape, const DeviceInfo& device);
/// Returns such hybrids for two arrays, and a block with values in float32 for rows of 16 bits.
std::vector<TypedConfig> gradients_to_try(const Shape& shape, const DeviceInfo& device);

/// Returns a valid hybrid for rows of 16 bits without alignment: blocks of 256 threads with few vectors in registers,
/// because whole vectors have code for both ends of a row. On an H200, 0.87 to 1.02 of the time of blocks with rows in
/// registers (NOTES.md, "Unaligned rows: narrow accesses, few warps a row"). With cache hints.
std::optional<TypedConfig> unaligned_hybrid(const Shape& shape, const DeviceInfo& device);

// several_blocks.cpp: rows that several blocks share.

TypedConfig grid_default(const Shape& shape, const DeviceInfo& device);
TypedConfig split_default(const Shape& shape, const DeviceInfo& device);

/// Returns a valid split whose blocks of 128 threads read one tile of a row of more than 64 KiB each, for sums alone of at
/// least the size of L2; nothing for others. Blocks of a whole row leave multiprocessors without work at the end: with 4.4
/// rows for each, some have 5. On an H100, 0.91 to 0.99 of the time of two_pass, and up to four times L2 another 0.92 to 1.0
/// with more resident blocks (cross_entropy/NOTES.md, "A tile for each block instead of a row"). With cache hints.
std::optional<TypedConfig> sums_in_tiles(const Shape& shape, const DeviceInfo& device);

// two_passes.cpp: rows that are read twice, or once and reduced to a few numbers.

TypedConfig two_pass_default(const Shape& shape, const DeviceInfo& device);

/// Returns one block per multiprocessor; it reads a row alone, in four tiles of 1024 threads. With cache hints.
TypedConfig lone_reader_default(const Shape& shape, const DeviceInfo& device);

// elementwise.cpp

/// Returns the default of elementwise programs: few accesses for each thread of a warp or a block. Rows that start and end
/// at pairs have accesses to pairs, and other short rows without alignment to elements. Measured on an H200
/// (row_program/NOTES.md, "Elementwise programs hold their rows").
TypedConfig elementwise_default(const Shape& shape, const DeviceInfo& device);

// short_rows.cpp: rows without alignment whose accesses are narrower than whole vectors.

/// Returns whether narrow accesses read these rows without alignment faster than whole vectors.
bool is_short_unaligned(const Shape& shape) noexcept;

/// Returns warps for short rows without alignment, and blocks of one warp where all lanes have much to do. A lane has the
/// accesses that were fastest on an H200 for rows of `cols` columns; measured for 58 to 1002 columns and 64 to 600 MB
/// (NOTES.md, "Short rows: lanes"). With one access for each lane, blocks would end faster than they can be launched. With
/// cache hints.
TypedConfig short_rows_default(const Shape& shape, std::int64_t cols, const DeviceInfo& device);

/// Returns a valid block whose accesses are pairs or elements, for unaligned rows of more than 1024 columns; nothing for
/// rows that whole vectors read faster. On an H200, 0.69 to 0.99 of the time of vectors (NOTES.md, "Unaligned rows: narrow
/// accesses, few warps a row"). With cache hints.
std::optional<TypedConfig> narrow_blocks(const Shape& shape, const DeviceInfo& device);

// staged_geometry.cpp: unaligned rows that pass through shared memory.

/// Returns whether that is the fastest choice for unaligned rows of up to a few KiB.
bool gains_from_staging(const Shape& shape) noexcept;

/// Returns warps in the geometry that was fastest on an H200 for 64 to 600 MB (NOTES.md, "Short rows staged in shared
/// memory").
TypedConfig staged_default(const Shape& shape, const DeviceInfo& device);
/// The same for a bucket whose narrowest rows have `cols` columns: lanes for those, rounds for the middle of the bucket.
TypedConfig staged_default(const Shape& shape, const DeviceInfo& device, std::int64_t cols);

/// Returns the configurations that a search tries, the default first.
std::vector<TypedConfig> staged_to_try(const Shape& shape, const DeviceInfo& device, bool full);

}  // namespace tunesmith::row
