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

/// Returns edge cases of f64: sizes around vectors, lanes, warps and blocks; in place; addresses aligned to only one
/// element; broadcast rows; eps of 0; weights of f64 and f32.
std::vector<Problem> f64_rms_norm_problems(std::int64_t rows);
/// Returns rows of f64 that several blocks share, or that one block reads twice.
std::vector<Case> long_f64_rms_norm_cases(const DeviceInfo& device);
/// Returns f64 kernels for every width of a bucket.
std::vector<Case> f64_rms_norm_capacity_cases(const DeviceInfo& device);

}  // namespace tunesmith::test
