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

}  // namespace tunesmith::row
