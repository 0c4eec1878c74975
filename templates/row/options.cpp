#include "templates/row/options.h"

#include <algorithm>
#include <numeric>

namespace tunesmith::row {

std::int64_t Options::mask_vector(int widest) const noexcept {
  if (mask == Mask::none) return 1;
  std::int64_t elements = mask_alignment / size_of(mask_dtype);
  for (const std::int64_t stride : {mask_row_stride, mask_middle_stride, mask_outer_stride})
    elements = std::gcd(elements, stride);
  const std::int64_t most = std::min<std::int64_t>(widest, 16 / size_of(mask_dtype));
  return std::gcd(std::max<std::int64_t>(elements, 1), most);
}

}  // namespace tunesmith::row
