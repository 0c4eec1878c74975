#pragma once
// Layout of an array of a problem, for plans, bindings and checks.

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
  std::vector<std::int64_t> strides;  ///< elements, in any order; 0 broadcasts
  std::int64_t alignment = 1;         ///< promised alignment of the base address in bytes
  std::string alignment_field{};      ///< the problem's field that promises `alignment`; empty: none
  std::string in_place_of{};          ///< the input whose memory this output uses; empty: its own memory
  std::string in_place_field{};       ///< the flag, or the choice between separate and in_place, that decides in_place_of
  std::vector<std::string> dims{};    ///< the extents as text: "rows", "batch + 1", "8"
  std::string meaning{};              ///< one line; may be empty
  bool present = true;                ///< false if the problem does not use it; only Op::describe_arrays lists those

  std::int64_t elements() const noexcept;      ///< product of shape
  std::int64_t extent_bytes() const noexcept;  ///< from the base to the end of the last element; 0 if empty
};

}  // namespace tunesmith
