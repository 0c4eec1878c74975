#include "templates/row/fields.h"

#include <algorithm>
#include <bit>

#include "tunesmith/error.h"

namespace tunesmith::row {
namespace {

constexpr std::int64_t max_extent_bytes = std::int64_t{1} << 56;  // far beyond any memory, far below overflow

}  // namespace

std::int64_t integer_between(const Problem& problem, std::string_view field, std::int64_t fallback, std::int64_t least,
                             std::int64_t most) {
  if (!problem.fields.contains(field)) return fallback;
  const std::int64_t value = problem.fields.integer(field);
  if (value < least || value > most)
    throw Error(ErrorCode::invalid_argument, field, " is ", value, "; allowed: ", least, " to ", most);
  return value;
}

std::size_t word_at(const Problem& problem, std::string_view field, const Words& allowed, std::size_t fallback) {
  if (!problem.fields.contains(field)) return fallback;
  const std::string& word = problem.fields.word(field);
  const auto found = std::ranges::find(allowed, std::string_view(word));
  if (found != allowed.end()) return static_cast<std::size_t>(found - allowed.begin());
  throw Error(ErrorCode::invalid_argument, field, " is '", word, "'; allowed: ", joined(allowed));
}

double real_between(const Problem& problem, std::string_view field, double fallback, double least, double most) {
  if (!problem.fields.contains(field)) return fallback;
  const double value = problem.fields.real(field);
  if (!(value >= least && value <= most))
    throw Error(ErrorCode::invalid_argument, field, " is ", text(*problem.fields.find(field)),
                "; allowed: ", text(Value(least)), " to ", text(Value(most)));
  return value;
}

std::int64_t alignment_field(const Problem& problem, std::string_view field, DType dtype) {
  const std::int64_t value = integer_between(problem, field, 16, 1, std::int64_t{1} << 40);
  if (!std::has_single_bit(static_cast<std::uint64_t>(value)) || value < size_of(dtype))
    throw Error(ErrorCode::invalid_argument, field, " is ", value, "; allowed: a power of two from ", size_of(dtype),
                " (the size of one ", name(dtype), ") up");
  return std::min<std::int64_t>(value, 16);
}

DType float_dtype_field(const Problem& problem, std::string_view field, DType fallback) {
  return problem.fields.contains(field) ? parse_float_dtype(problem.fields.word(field), field) : fallback;
}

void check_extent(std::string_view array, std::int64_t rows, std::int64_t row_stride, DType dtype) {
  if (rows == 0 || row_stride <= max_extent_bytes / size_of(dtype) / rows) return;
  throw Error(ErrorCode::invalid_argument, "rows is ", rows, " and the row stride of ", array, " is ", row_stride,
              " elements of ", size_of(dtype), " bytes: the array would span more than 2^56 bytes");
}

void check_names(const Problem& problem, const std::vector<FieldInfo>& known,
                 const std::vector<std::string_view>& required) {
  for (const auto& item : problem.fields) {
    const std::string& field = item.first;
    if (std::ranges::any_of(known, [&](const FieldInfo& info) { return info.name == field; })) continue;
    std::string names;
    for (const FieldInfo& info : known) names += (names.empty() ? "" : ", ") + std::string(info.name);
    throw Error(ErrorCode::invalid_argument, "'", field, "' is not a field of ", problem.op, "; allowed: ", names);
  }
  std::string needed;
  for (const std::string_view field : required) needed += (needed.empty() ? "" : " and ") + std::string(field);
  for (const std::string_view field : required)
    if (!problem.fields.contains(field))
      throw Error(ErrorCode::invalid_argument, field, " is missing; ", problem.op, " needs ", needed);
}

}  // namespace tunesmith::row
