#pragma once
// Layout of one array of a problem, as plans, bindings and checks see it.

#include <cstdint>
#include <string>
#include <vector>

#include "tunesmith/types.h"

namespace tunesmith {

struct ArrayInfo {
  std::string name;                    ///< "x"
  bool input = false, output = false;  ///< both: read and written in place
  bool optional = false;               ///< a launch accepts nullptr for it
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< elements; the last is 1, and 0 repeats the same elements
  std::int64_t alignment = 1;         ///< bytes the base address is promised to be a multiple of
  std::string in_place_of{};          ///< an output that is this input's memory; empty: memory of its own
  std::vector<std::string> dims{};    ///< what each extent is: "rows", "batch + 1", "8"
  std::string meaning{};              ///< one line; may be empty
  bool present = true;                ///< false: only what Op::describe_arrays lists; the problem does not use it

  std::int64_t elements() const noexcept;      ///< product of shape
  std::int64_t extent_bytes() const noexcept;  ///< from the base to the end of the last element; 0 when empty
};

}  // namespace tunesmith
