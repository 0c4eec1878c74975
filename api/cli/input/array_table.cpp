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
  const auto is_field = [&](const std::string& name) {
    return std::ranges::find(fields_, name, &FieldInfo::name) != fields_.end();
  };
  std::vector<Dimension> dimensions;
  for (const std::string& dim : array.dims) {  // "batch", "batch + 1", "shards * rows", "8", "ceil(rows / group)"
    Dimension& dimension = dimensions.emplace_back();
    const std::size_t blank = dim.find(' ');
    const std::string name = dim.substr(0, blank), rest = blank == std::string::npos ? "" : dim.substr(blank);
    if (!is_field(name)) continue;
    if (rest.empty()) {
      dimension.field = name;
    } else if (rest.starts_with(" + ")) {
      dimension = {name, std::stoll(rest.substr(3))};
    } else if (rest.starts_with(" * ") && is_field(rest.substr(3))) {
      if (const Value* const factor = known_.find(name); factor != nullptr)
        dimension = {rest.substr(3), 0, std::max<std::int64_t>(known_.integer(name), 1)};
    }
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
