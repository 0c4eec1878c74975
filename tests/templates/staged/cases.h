#pragma once
// Problems whose rows pass through shared memory, of all operations over rows.

#include <vector>

#include "tests/templates/softmax/cases.h"

namespace tunesmith::test {

/// Returns every unaligned width up to 70 and some up to 1101, with all operations, dtypes and geometries in turn: blocks
/// that are not full, fewer rows than a block has, several rows for the same lanes.
std::vector<Case> staged_widths(const DeviceInfo& device);

/// Returns in-place outputs, other dtypes of the output, masks, row lengths, arrays [col], and row programs with several
/// arrays.
std::vector<Case> staged_options(const DeviceInfo& device);

/// Returns losses with all their options and targets of either type, in blocks with fewer rounds than a row has lanes, as
/// many, and more.
std::vector<Case> staged_losses(const DeviceInfo& device);

/// Returns every unaligned width of the narrow buckets, and some of wider ones, in kernels that the widths of a bucket
/// share.
std::vector<Case> staged_buckets(const DeviceInfo& device);

}  // namespace tunesmith::test
