#include "api/cli/input/problem_from_files.h"

#include <algorithm>
#include <optional>

#include "api/cli/arguments/field_kind.h"
#include "api/cli/arguments/problem_flags.h"
#include "api/cli/input/array_table.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

/// The problem's array of this name; nullopt if it has none or is rejected.
std::optional<ArrayInfo> array_of(const Op& op, const Problem& problem, const std::string& name, bool ArrayInfo::*kind) {
  try {
    for (ArrayInfo& array : op.parse(problem)->arrays())
      if (array.name == name && array.*kind) return std::move(array);
  } catch (const Error&) {
  }
  return std::nullopt;
}

/// The field (dtype, target_dtype) that is the array's element type; empty if there is none.
std::string_view dtype_field_of(const Op& op, const ArrayTable& table, const std::string& array) {
  for (const FieldInfo& field : op.problem_fields()) {
    if (field.option || field.choices.size() < 2 || !field.name.ends_with("dtype")) continue;
    const bool follows = std::ranges::all_of(field.choices, [&](std::string_view choice) {
      const std::optional<ArrayInfo> info = table.input_with(field.name, std::string(choice), array);
      return !info || tunesmith::name(info->dtype) == choice;  // absent with this choice
    });
    if (follows) return field.name;
  }
  return {};
}

/// A field and its value.
using Way = std::pair<std::string, Value>;

Problem with_way(Problem problem, const Way& way) {
  problem.fields.set(way.first, way.second);
  return problem;
}

/// The values other than the default that a field may have, if it may switch something on.
std::vector<Value> switch_values(const FieldInfo& field) {
  std::vector<Value> values;
  for (const std::string_view choice : field.choices) values.emplace_back(std::string(choice));
  if (kind_of(field) == FieldKind::toggle) values.emplace_back(std::int64_t{1});
  return values;
}

/// Every value of an absent field that enables an array, in the order of the fields.
std::vector<Way> ways_to_bring(const Op& op, const Problem& problem, const std::string& name, bool ArrayInfo::*kind) {
  std::vector<Way> ways;
  for (const FieldInfo& field : op.problem_fields()) {
    if (problem.fields.contains(field.name)) continue;
    for (const Value& value : switch_values(field))
      if (const Way way(field.name, value); array_of(op, with_way(problem, way), name, kind)) ways.push_back(way);
  }
  return ways;
}

/// Whether an input that the field's value enables has the shape of its file.
bool makes_fit(const Op& op, const Problem& problem, const Way& way, const std::string& name, const NpyReader& file) {
  const std::optional<ArrayInfo> info = array_of(op, with_way(problem, way), name, &ArrayInfo::input);
  return info && without_ones(info->shape) == without_ones(file.header().shape);
}

/// "2 (rows x cols), or 1 for a single row".
std::string dimensions_text(const ArrayInfo& info) {
  std::string names;
  for (const std::string& dim : info.dims) names += (names.empty() ? "" : " x ") + dim;
  return std::to_string(info.shape.size()) + " (" + names + ")" + (info.shape.size() == 2 ? ", or 1 for a single row" : "");
}

/// A problem that gets the lengths of its files. `asked`: the fields that were given explicitly.
struct Shaping {
  const Op& op;
  Problem problem;
  const Fields asked;

  void set(const Dimension& dimension, std::int64_t length, const std::string& name, const NpyReader& file) {
    if (length % dimension.times != 0)
      throw Error(ErrorCode::invalid_argument, name, " from '", file.path().string(), "' is ",
                  shape_text(file.header().shape), ", and ", length, " is no multiple of ", dimension.times,
                  "; its first dimension has ", dimension.times, " elements for each of ", dimension.field);
    const Value value((length - dimension.plus) / dimension.times);
    const Value* known = problem.fields.find(dimension.field);
    if (known != nullptr && *known != value) {
      const bool by_hand = asked.contains(dimension.field);
      throw Error(ErrorCode::invalid_argument, dimension.field, " is ", text(*known), by_hand ? "" : " by another file",
                  ", but ", name, " from '", file.path().string(), "' is ", shape_text(file.header().shape),
                  by_hand ? "; leave " + flag_of(dimension.field) + " out or give the file's" : "; files must agree");
    }
    problem.fields.set(dimension.field, value);
  }
};

/// The dtype of a file's element type; empty for integers that are not the bits of bf16.
std::string_view dtype_of(NpyType type, bool bf16_bits) {
  switch (type) {
    case NpyType::f4: return "f32";
    case NpyType::f2: return "f16";
    case NpyType::f8: return "f64";
    case NpyType::u2: return bf16_bits ? "bf16" : "";
    case NpyType::i4: return "i32";
    case NpyType::i8: return "i64";
    default: return "";
  }
}

/// "f32 takes '<f4', f16 '<f2', bf16 '<u2'".
std::string descriptions_of(const std::vector<std::string_view>& dtypes) {
  std::string text;
  for (const std::string_view dtype : dtypes)
    text += (text.empty() ? std::string(dtype) + " takes" : ", " + std::string(dtype)) + " '" +
            std::string(descr(npy_type(parse_dtype(dtype)))) + "'";
  return text;
}

void set_dtype(const Op& op, Problem& problem, std::string_view field, const std::string& name, const NpyReader& file) {
  const std::vector<FieldInfo> fields = op.problem_fields();
  const std::vector<std::string_view> words = std::ranges::find(fields, field, &FieldInfo::name)->choices;
  const NpyType type = file.header().type;
  const Value* given = problem.fields.find(field);
  const std::string wanted = given == nullptr ? "" : text(*given);
  const std::string_view held = dtype_of(type, wanted == "bf16");
  const std::string what = name + " from '" + file.path().string() + "' holds '" + std::string(descr(type)) + "'";
  const bool takes_bf16 = std::ranges::find(words, "bf16") != words.end();
  if (given == nullptr && type == NpyType::u2 && takes_bf16)
    throw Error(ErrorCode::invalid_argument, what, " (16-bit integers); give ", flag_of(field),
                " bf16 when they are the bits of bf16");
  if (std::ranges::find(words, held) == words.end() || (given != nullptr && wanted != held))
    throw Error(ErrorCode::invalid_argument, given == nullptr ? "" : std::string(field) + " is " + wanted + ", but ", what,
                "; ", descriptions_of(words));
  problem.fields.set(field, std::string(held));
}

/// Whether the dimension is a field, but not an option, and only optional arrays have it.
bool is_known_only_from(const Op& op, const ArrayTable& table, const Dimension& dimension) {
  if (dimension.field.empty() || has_option(op, dimension.field)) return false;
  return std::ranges::none_of(table.arrays(), [&](const ArrayInfo& array) {
    return table.is_always_there(array.name) &&
           std::ranges::any_of(table.dimensions(array), [&](const Dimension& one) { return one.field == dimension.field; });
  });
}

/// Sets fields that alone enable an array for which there is a file, whatever the file's shape: they may decide the shapes
/// of other arrays (packed sequences).
Problem with_unmistakable_options(const Op& op, Problem problem, const InputFiles& files) {
  for (const auto& [name, file] : files) {
    const ArrayTable table(op, problem.fields);
    if (std::ranges::any_of(table.arrays(),
                            [&array = name](const ArrayInfo& one) { return one.name == array && one.input; }))
      continue;
    std::vector<Way> ways;
    for (const FieldInfo& field : op.problem_fields())
      for (const Value& value : switch_values(field))
        if (!problem.fields.contains(field.name) && table.input_with(field.name, value, name))
          ways.emplace_back(field.name, value);
    if (ways.size() == 1) problem = with_way(std::move(problem), ways.front());
  }
  return problem;
}

}  // namespace

Problem with_file_shapes(const Op& op, Problem problem, const InputFiles& files) {
  if (files.empty()) return problem;
  problem = with_unmistakable_options(op, std::move(problem), files);
  const ArrayTable table(op, problem.fields);
  Shaping shaping{op, problem, problem.fields};
  for (const auto& [name, file] : files) {
    const bool always = table.is_always_there(name);
    if (!always && has_option(op, name)) continue;  // it may still be switched on
    const ArrayInfo& info = find_array(op, table.arrays(), name, &ArrayInfo::input, "--input");
    const std::vector<Dimension> dimensions = table.dimensions(info);
    std::vector<std::int64_t> shape = file->header().shape;
    if (!always) {
      if (shape.size() == dimensions.size())
        for (std::size_t d = 0; d < shape.size(); ++d)
          if (is_known_only_from(op, table, dimensions[d])) shaping.set(dimensions[d], shape[d], name, *file);
      continue;
    }
    if (shape.size() == 1 && dimensions.size() == 2) shape.insert(shape.begin(), 1);
    if (shape.size() != dimensions.size())
      throw Error(ErrorCode::invalid_argument, name, " from '", file->path().string(), "' has ", shape.size(),
                  " dimensions (", shape_text(shape), "); ", op.name(), " takes ", dimensions_text(info));
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (!dimensions[d].field.empty()) shaping.set(dimensions[d], shape[d], name, *file);
    if (const std::string_view field = dtype_field_of(op, table, name); !field.empty())
      set_dtype(op, shaping.problem, field, name, *file);
  }
  return std::move(shaping.problem);
}

Problem with_arrays_of_files(const Op& op, Problem problem, const InputFiles& inputs, const FileMap& outputs) {
  // Outputs first: an upstream gradient goes with a gradient.
  for (const auto& [name, path] : outputs) {
    if (array_of(op, problem, name, &ArrayInfo::output)) continue;
    const auto ways = ways_to_bring(op, problem, name, &ArrayInfo::output);
    if (!ways.empty()) problem = with_way(std::move(problem), ways.front());
  }
  for (const auto& [name, file] : inputs) {
    if (array_of(op, problem, name, &ArrayInfo::input)) continue;
    auto ways = ways_to_bring(op, problem, name, &ArrayInfo::input);
    if (ways.size() > 1)
      std::erase_if(ways, [&op, &problem, &array = name, &reader = *file](const Way& way) {
        return !makes_fit(op, problem, way, array, reader);
      });
    if (ways.size() == 1) problem = with_way(std::move(problem), ways.front());
  }
  return problem;
}

}  // namespace tunesmith::cli
