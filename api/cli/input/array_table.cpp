#include "api/cli/input/array_table.h"

#include <algorithm>

namespace tunesmith::cli {
namespace {

std::vector<ArrayInfo> present_arrays(const Op& op, const Fields& known) {
  std::vector<ArrayInfo> arrays = op.describe_arrays(known);
  std::erase_if(arrays, [](const ArrayInfo& array) { return !array.present; });
  return arrays;
}

}  // namespace

ArrayTable::ArrayTable(const Op& op, const Fields& known)
    : op_(op), known_(known), fields_(op.problem_fields()), arrays_(present_arrays(op, known)) {
  Fields plain;
  for (const FieldInfo& field : fields_)
    if (const Value* value = known.find(field.name); value != nullptr && !field.option) plain.set(field.name, *value);
  for (const ArrayInfo& array : present_arrays(op, plain)) always_.insert(array.name);
}

std::vector<Dimension> ArrayTable::dimensions(const ArrayInfo& array) const {
  std::vector<Dimension> dimensions;
  for (const std::string& dim : array.dims) {  // "batch", "batch + 1", "8", "row groups"
    const std::string name = dim.substr(0, dim.find(' '));
    const std::size_t plus = dim.find(" + ");
    const bool is_field = std::ranges::find(fields_, name, &FieldInfo::name) != fields_.end();
    dimensions.push_back(is_field ? Dimension{name, plus == std::string::npos ? 0 : std::stoll(dim.substr(plus + 3))}
                                  : Dimension{});
  }
  return dimensions;
}

std::optional<ArrayInfo> ArrayTable::input_with(std::string_view field, const Value& value, std::string_view array) const {
  Fields fields = known_;
  fields.set(field, value);
  for (ArrayInfo& info : present_arrays(op_, fields))
    if (info.name == array && info.input) return std::move(info);
  return std::nullopt;
}

}  // namespace tunesmith::cli
