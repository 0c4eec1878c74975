#pragma once
// Inputs that test attention. Internal to templates/.

#include <cstdint>
#include <span>

#include "templates/attention/settings.h"
#include "templates/op.h"

namespace tunesmith::attention {

/// Visits every (batch entry, position, head) of a tensor of this side's shape with the offset of its first element.
template <typename Visit>
void over_positions(const Settings& settings, Side side, const Tensor& tensor, const Visit& visit) {
  const Extents extent = settings.extents(side);
  for (std::int64_t b = 0; b < extent.entries; ++b)
    for (std::int64_t s = 0; s < extent.rows; ++s)
      for (std::int64_t h = 0; h < extent.heads; ++h) visit(b, s, h, Settings::element(tensor, b, s, h));
}

/// Fills the arrays that the forward pass reads; q, k and v come first. With edge cases, some queries hold NaN or infinity.
void fill_inputs(const Settings& settings, std::uint64_t seed, bool edge_cases, std::span<const HostArray> arrays);

}  // namespace tunesmith::attention
