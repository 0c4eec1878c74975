// Defaults of variants in which several blocks share a row, for fewer rows than multiprocessors.

#include <algorithm>

#include "templates/row/defaults.h"
#include "templates/row/geometry.h"

namespace tunesmith::row {

TypedConfig grid_default(const Shape& shape, const DeviceInfo& device) {
  TypedConfig config;
  config.variant = Variant::grid;
  const int wide = size_of(shape.input) >= 4 ? 8 : 4;
  for (const int vectors : {wide / shape.inputs, wide, 16})
    for (const int threads : {256, 512, 1024})
      if (share_row(config, threads, vectors, shape, device)) return config;
  return config;
}

TypedConfig split_default(const Shape& shape) {
  TypedConfig config;
  config.variant = Variant::split;
  config.unroll = 4;
  config.threads = 256;
  config.blocks_per_row = std::max(2, parts_of(1, config, shape));
  return config;
}

}  // namespace tunesmith::row
