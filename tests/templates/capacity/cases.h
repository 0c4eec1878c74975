#pragma once
// Problems in kernels for a capacity, of all operations that have them.

#include <vector>

#include "tests/support/cases.h"

namespace tunesmith::test {

/// Returns every width of a small range with the capacity's default configuration: contiguous rows, most of them not aligned
/// to a vector, and rows padded to whole vectors.
std::vector<Case> every_small_width(const DeviceInfo& device);

/// Returns widths at both ends of a bucket, and between, in every variant.
std::vector<Case> bucket_ends_in_every_variant(const DeviceInfo& device);

/// Returns long rows in the configurations that `device` has for 46 to 150 of them, in kernels for their buckets or for the
/// exact widths. The problems have three rows.
std::vector<Case> few_long_rows(const DeviceInfo& device, bool in_buckets);

/// Returns narrow and wide rows of buckets in configurations that keep parts of them in shared memory, with all kinds of
/// groups: reads of one and two arrays, losses and row programs with inputs of different sizes.
std::vector<Case> rows_in_shared_memory(const DeviceInfo& device);

/// Cases that run in one kernel: they differ only in the width and in strides.
struct SharedKernel {
  std::vector<Case> cases;
};

/// Groups the cases by the text that the engine looks loaded kernels up by. Expects that the cases of a group have the same
/// source.
std::vector<SharedKernel> by_kernel(const std::vector<Case>& cases);

}  // namespace tunesmith::test
