#include "tuner/array_layout.h"

#include <algorithm>

namespace tunesmith {
namespace {

/// Calls visit(leading indices, offset of the innermost row) until it returns true.
template <typename Visit>
void over_inner_rows(const ArrayInfo& array, const Visit& visit) {
  if (array.elements() == 0) return;
  const std::size_t leading = array.shape.empty() ? 0 : array.shape.size() - 1;
  std::vector<std::int64_t> index(leading, 0);
  while (true) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < leading; ++i) offset += index[i] * array.strides[i];
    if (visit(index, offset)) return;
    std::size_t digit = leading;
    while (digit > 0 && ++index[digit - 1] == array.shape[digit - 1]) index[--digit] = 0;
    if (digit == 0) return;
  }
}

std::int64_t inner_count(const ArrayInfo& array) { return array.shape.empty() ? 1 : array.shape.back(); }

}  // namespace

std::vector<ElementRun> element_runs(const ArrayInfo& array) {
  std::vector<ElementRun> runs;
  over_inner_rows(array, [&](const auto&, std::int64_t offset) {
    if (!runs.empty() && runs.back().begin + runs.back().count == offset)
      runs.back().count += inner_count(array);
    else
      runs.push_back({offset, inner_count(array)});
    return false;
  });
  std::ranges::sort(runs, {}, &ElementRun::begin);
  std::vector<ElementRun> joined;
  for (const ElementRun& run : runs) {
    if (!joined.empty() && joined.back().begin + joined.back().count >= run.begin)
      joined.back().count = std::max(joined.back().count, run.begin + run.count - joined.back().begin);
    else
      joined.push_back(run);
  }
  return joined;
}

std::string element_name(const ArrayInfo& array, std::int64_t offset) {
  std::string name = array.name + "+" + std::to_string(offset);
  over_inner_rows(array, [&](const std::vector<std::int64_t>& index, std::int64_t row) {
    if (offset < row || offset >= row + inner_count(array)) return false;
    name = array.name + "[";
    for (const std::int64_t i : index) name += std::to_string(i) + ",";
    name += std::to_string(offset - row) + "]";
    return true;
  });
  return name;
}

std::vector<std::size_t> storage_owners(const std::vector<ArrayInfo>& arrays) {
  std::vector<std::size_t> owners(arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    owners[i] = i;
    for (std::size_t j = 0; j < arrays.size() && !arrays[i].in_place_of.empty(); ++j)
      if (arrays[j].name == arrays[i].in_place_of) owners[i] = j;
  }
  return owners;
}

}  // namespace tunesmith
