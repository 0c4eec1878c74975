#include "api/cli/arguments/field_kind.h"

namespace tunesmith::cli {

FieldKind kind_of(const FieldInfo& field) {
  switch (field.kind) {
    case tunesmith::FieldKind::flag: return FieldKind::toggle;
    case tunesmith::FieldKind::choice: return FieldKind::choice;
    case tunesmith::FieldKind::text: return field.option ? FieldKind::free_text : FieldKind::file;
    case tunesmith::FieldKind::integer:
    case tunesmith::FieldKind::real: break;
  }
  return FieldKind::number;
}

bool is_read_from_file(std::string_view field) {
  for (const Op* op : all_ops())
    for (const FieldInfo& info : op->problem_fields())
      if (info.name == field && kind_of(info) == FieldKind::file) return true;
  return false;
}

bool is_memory_layout(const FieldInfo& field) {
  return field.name.ends_with("_stride") || field.name.ends_with("_alignment");
}

}  // namespace tunesmith::cli
