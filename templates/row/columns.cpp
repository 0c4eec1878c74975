#include "templates/row/columns.h"

#include <algorithm>

#include "templates/source_text.h"

namespace tunesmith::row {

int Columns::vector(const Shape& shape) const noexcept {
  if (shape.shifted()) return 1;  // columns are not counted from an aligned address
  return static_cast<int>(std::min<std::int64_t>(shape.vector(), std::min<std::int64_t>(alignment, 16) / size_of(dtype)));
}

std::string Columns::type(const Shape& shape) const {
  if (!present) return "NoColumns";
  return "Columns<" + device_type(dtype) + ", " + std::to_string(vector(shape)) + ">";
}

std::string Columns::problem_class(const std::string& name, const Shape& shape) const {
  if (!present) return {};
  return "," + name + "=" + std::string(tunesmith::name(dtype)) + ":" + std::to_string(vector(shape));
}

bool loads_columns_early(const TypedConfig& config, const Shape& shape, bool always) {
  constexpr int registers_per_sm = 65536, max_vectors_of_groups = 8;
  const bool stages_rows = config.access == Access::staged || config.variant == Variant::persistent;
  if (!config.holds_row() || stages_rows || shape.cost.sums_rows()) return false;
  if (always) return config.variant != Variant::block || config.vectors_per_thread(shape) <= max_vectors_of_groups;
  if (config.variant == Variant::warp) return !shape.shifted();
  if (config.variant != Variant::block && config.variant != Variant::cluster) return false;  // not measured
  // With fewer registers threads spill. Code for the ends of unaligned rows takes more of them: 1.06 to 1.35 of the time.
  const int enough = shape.shifted() && config.variant != Variant::cluster ? 72 : 64;
  return registers_per_sm / (config.threads * config.min_blocks) >= enough;
}

std::string loaded_early(std::string columns_type) {
  return columns_type.insert(columns_type.size() - 1, ", LoadHint::read_only");
}

}  // namespace tunesmith::row
