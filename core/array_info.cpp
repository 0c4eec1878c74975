#include "tunesmith/array_info.h"

namespace tunesmith {

std::int64_t ArrayInfo::elements() const noexcept {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

std::int64_t ArrayInfo::extent_bytes() const noexcept {
  if (elements() == 0) return 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) last += (shape[i] - 1) * strides[i];
  return (last + 1) * size_of(dtype);
}

}  // namespace tunesmith
