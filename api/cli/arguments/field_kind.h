#pragma once
// How the command line reads a field of an operation.

#include <string_view>

#include "templates/op.h"

namespace tunesmith::cli {

enum class FieldKind {
  number,
  choice,    ///< one of a closed set of names
  toggle,    ///< 0 or 1: a plain switch
  file,      ///< source code, which the flag reads from a file
  free_text  ///< any string
};

FieldKind kind_of(const FieldInfo& field);
/// Whether some operation has a field of this name that is read from a file.
bool is_read_from_file(std::string_view field);
/// Whether the field describes how arrays lie in memory: strides and alignments.
bool is_memory_layout(const FieldInfo& field);

}  // namespace tunesmith::cli
