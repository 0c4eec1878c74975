#pragma once
// The layout of a strided array: runs of elements, gaps, and names of elements.

#include <cstdint>
#include <string>
#include <vector>

#include "templates/op.h"

namespace tunesmith {

/// Elements that lie next to each other, counted from the array's base.
struct ElementRun {
  std::int64_t begin = 0, count = 0;
};

/// Every element of the array, ascending, neighbouring runs joined: a contiguous array is one run.
std::vector<ElementRun> element_runs(const ArrayInfo& array);

/// "y[3,17]" for the element at this offset from the base, in elements.
std::string element_name(const ArrayInfo& array, std::int64_t offset);

/// For each array the index of the array whose memory it uses: itself, or the input that it overwrites.
std::vector<std::size_t> storage_owners(const std::vector<ArrayInfo>& arrays);

}  // namespace tunesmith
