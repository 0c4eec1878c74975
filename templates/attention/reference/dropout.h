#pragma once
// Dropout of attention weights, as the references compute it. See attention/dropout.cuh for the kernels'. Internal to
// templates/.

#include <array>
#include <cstdint>
#include <span>

#include "templates/attention/settings.h"
#include "templates/op.h"

namespace tunesmith::attention {

/// Philox4x32-10 (Salmon et al., SC 2011): four random numbers of a counter and a key.
std::array<std::uint32_t, 4> philox(std::uint64_t key, const std::array<std::uint32_t, 4>& counter) noexcept;

/// A pair is dropped if its 16 random bits are less than this: probabilities are multiples of 2^-16.
std::uint32_t dropout_threshold(double probability) noexcept;
/// Returns the factor of a kept pair: the inverse of the probability of being kept.
double dropout_factor(double probability) noexcept;

/// The factors of the weights of a call.
class DropoutMask {
 public:
  /// Reads seed and offset from the array rng_state if the problem has it.
  DropoutMask(const Settings& settings, std::span<const HostArray> arrays);

  /// Returns 0 for a pair that is dropped, dropout_factor() for others.
  double factor(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key) const noexcept;

 private:
  std::uint64_t key_ = 0;
  std::uint32_t threshold_;
  double kept_;
};

}  // namespace tunesmith::attention
