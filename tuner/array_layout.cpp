#include "tuner/array_layout.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tunesmith {
namespace {

struct Dimension {
  std::int64_t extent, stride;
};

/// Returns the dimensions of more than one element, the largest stride first.
std::vector<Dimension> dimensions_by_stride(const ArrayInfo& array) {
  std::vector<Dimension> dimensions;
  for (std::size_t i = 0; i < array.shape.size(); ++i)
    if (array.shape[i] > 1) dimensions.push_back({array.shape[i], array.strides[i]});
  std::ranges::stable_sort(dimensions, std::greater(), &Dimension::stride);
  return dimensions;
}

}  // namespace

std::vector<ElementRun> element_runs(const ArrayInfo& array) {
  if (array.elements() == 0) return {};
  std::vector<Dimension> outer = dimensions_by_stride(array);
  while (!outer.empty() && outer.back().stride == 0) outer.pop_back();  // the same elements again
  std::int64_t count = 1;
  if (!outer.empty() && outer.back().stride == 1) {
    count = outer.back().extent;
    outer.pop_back();
  }
  std::vector<ElementRun> runs;
  std::vector<std::int64_t> index(outer.size(), 0);
  for (std::size_t digit = 1; digit > 0;) {
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < outer.size(); ++i) begin += index[i] * outer[i].stride;
    if (!runs.empty() && runs.back().begin + runs.back().count == begin)
      runs.back().count += count;
    else
      runs.push_back({begin, count});
    for (digit = outer.size(); digit > 0 && ++index[digit - 1] == outer[digit - 1].extent; --digit) index[digit - 1] = 0;
  }
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
  std::vector<std::size_t> order(array.shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return array.strides[i]; });
  std::vector<std::int64_t> index(order.size(), 0);
  std::int64_t rest = offset;
  for (const std::size_t i : order) {
    if (array.strides[i] <= 0) continue;
    index[i] = std::clamp<std::int64_t>(rest / array.strides[i], 0, array.shape[i] - 1);
    rest -= index[i] * array.strides[i];
  }
  if (rest != 0 || array.elements() == 0) return array.name + "+" + std::to_string(offset);
  std::string name;
  for (const std::int64_t i : index) name += (name.empty() ? "" : ",") + std::to_string(i);
  return array.name + "[" + (name.empty() ? "0" : name) + "]";
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
