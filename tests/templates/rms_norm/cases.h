#pragma once
// Problems and configurations of rms_norm for the kernel tests.

#include <vector>

#include "tests/templates/softmax/cases.h"

namespace tunesmith::test {

/// Returns edge cases: one column; sizes around vectors, lanes, warps and blocks; padded and odd strides; broadcast rows;
/// addresses aligned to only one element; in place; all pairs of dtypes; eps of 0; weights of every dtype and alignment.
std::vector<Problem> rms_norm_problems(std::int64_t rows);

/// Returns rows that several blocks share, or that one block reads twice, in every variant that does so on the device.
std::vector<Case> long_rms_norm_cases(const DeviceInfo& device);

/// The same of f64.
std::vector<Problem> f64_rms_norm_problems(std::int64_t rows);
std::vector<Case> long_f64_rms_norm_cases(const DeviceInfo& device);
/// Kernels for every width of a bucket.
std::vector<Case> f64_rms_norm_capacity_cases(const DeviceInfo& device);

}  // namespace tunesmith::test
