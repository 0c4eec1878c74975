#include "api/cli/problem_from_files.h"

#include <algorithm>
#include <array>
#include <optional>

#include "api/cli/flags.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

// Lengths that tell the required fields of a probe apart, in the steps that head_dim comes in.
constexpr std::array<std::int64_t, 10> probe_lengths{16, 24, 40, 56, 88, 104, 136, 152, 184, 232};

/// A small problem with the given words (element types and the like): it tells which arrays there always are, and which
/// required fields their dimensions stand for. `lengths` gets those fields.
Problem make_probe(const Op& op, const Problem& given, std::map<std::int64_t, std::string>& lengths) {
  Problem probe{given.op, {}};
  for (const FieldInfo& field : op.problem_fields())
    if (const Value* value = given.fields.find(field.name); !field.words.empty() && !field.option && value != nullptr) {
      probe.fields.set(field.name, *value);
    } else if (field.default_text.empty()) {
      const std::int64_t length = probe_lengths.at(lengths.size());
      lengths.emplace(length, field.name);
      probe.fields.set(field.name, length);
    }
  return probe;
}

/// The same with what else was given, options above all. A number that goes with the true lengths only is left out.
Problem with_options(const Op& op, Problem probe, const Problem& given) {
  for (const FieldInfo& field : op.problem_fields())
    if (const Value* value = given.fields.find(field.name); field.option && !field.words.empty() && value != nullptr)
      probe.fields.set(field.name, *value);
  probe = op.normalize(probe);
  for (const FieldInfo& field : op.problem_fields())
    if (const Value* value = given.fields.find(field.name);
        !field.default_text.empty() && field.words.empty() && value != nullptr) {
      Problem more = probe;
      more.fields.set(field.name, *value);
      try {
        probe = op.normalize(more);
      } catch (const Error&) {  // the problem itself will be refused with it, if it is wrong there too
      }
    }
  return probe;
}

/// The array as the problem has it; nothing when it has not, or when the problem is refused.
std::optional<ArrayInfo> array_of(const Op& op, const Problem& problem, const std::string& name, bool ArrayInfo::*kind) {
  try {
    for (ArrayInfo& array : op.arrays(op.normalize(problem)))
      if (array.name == name && array.*kind) return std::move(array);
  } catch (const Error&) {
  }
  return std::nullopt;
}

/// The field (dtype, target_dtype) whose word is the array's element type; empty when none is.
std::string_view dtype_field_of(const Op& op, const Problem& probe, const std::string& array) {
  for (const FieldInfo& field : op.problem_fields()) {
    if (field.option || field.words.size() < 2 || !field.name.ends_with("dtype")) continue;
    const bool follows = std::ranges::all_of(field.words, [&](std::string_view word) {
      Problem variant = probe;
      variant.fields.set(field.name, std::string(word));
      const std::optional<ArrayInfo> info = array_of(op, variant, array, &ArrayInfo::input);
      return !info || tunesmith::name(info->dtype) == word;  // a variant that is refused says nothing
    });
    if (follows) return field.name;
  }
  return {};
}

bool is_refused(const Op& op, const Problem& problem) {
  try {
    (void)op.normalize(problem);
    return false;
  } catch (const Error&) {
    return true;
  }
}

/// Whether the field is one of 0 and 1, and 0 unless it is given.
bool is_switch(const Op& op, const Problem& problem, const FieldInfo& field) {
  if (!field.words.empty() || field.default_text != "0") return false;
  Problem two = problem;
  two.fields.set(field.name, std::int64_t{2});
  return is_refused(op, two);
}

/// A field and its value.
using Way = std::pair<std::string, Value>;

Problem with_way(Problem problem, const Way& way) {
  problem.fields.set(way.first, way.second);
  return problem;
}

/// Every way to bring an array that the problem does not have, in the order of the fields.
std::vector<Way> ways_to_bring(const Op& op, const Problem& problem, const std::string& name, bool ArrayInfo::*kind) {
  std::vector<Way> ways;
  for (const FieldInfo& field : op.problem_fields()) {
    if (problem.fields.contains(field.name)) continue;
    std::vector<Value> values;
    for (const std::string_view word : field.words) values.emplace_back(std::string(word));
    if (is_switch(op, problem, field)) values.emplace_back(std::int64_t{1});
    for (const Value& value : values)
      if (const Way way(field.name, value); array_of(op, with_way(problem, way), name, kind)) ways.push_back(way);
  }
  return ways;
}

/// Whether an input that the way brings is as long as its file.
bool makes_fit(const Op& op, const Problem& problem, const Way& way, const std::string& name, const NpyReader& file) {
  const std::optional<ArrayInfo> info = array_of(op, with_way(problem, way), name, &ArrayInfo::input);
  return info && without_ones(info->shape) == without_ones(file.header().shape);
}

/// "2 (rows x cols), or 1 for a single row".
std::string dimensions_text(const ArrayInfo& info, const std::map<std::int64_t, std::string>& lengths) {
  std::string names;
  for (const std::int64_t length : info.shape) {
    const auto field = lengths.find(length);
    names += (names.empty() ? "" : " x ") + (field == lengths.end() ? std::to_string(length) : field->second);
  }
  return std::to_string(info.shape.size()) + " (" + names + ")" + (info.shape.size() == 2 ? ", or 1 for a single row" : "");
}

/// `asked`: what was given beside the files.
void set_extent(Problem& problem, const Fields& asked, std::string_view field, std::int64_t extent, const std::string& name,
                const NpyReader& file) {
  const Value* known = problem.fields.find(field);
  if (known != nullptr && *known != Value(extent))
    throw Error(ErrorCode::invalid_argument, field, " is ", text(*known), asked.contains(field) ? "" : " by another file",
                ", but ", name, " from '", file.path().string(), "' is ", shape_text(file.header().shape),
                asked.contains(field) ? "; leave " + flag_of(field) + " out or give the file's" : "; files must agree");
  problem.fields.set(field, extent);
}

/// What a file's element type stands for; nothing for integers that are not the bits of bf16.
std::string_view dtype_of(NpyType type, bool bf16_bits) {
  switch (type) {
    case NpyType::f4: return "f32";
    case NpyType::f2: return "f16";
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
  const std::vector<std::string_view> words = std::ranges::find(fields, field, &FieldInfo::name)->words;
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

}  // namespace

Problem with_file_shapes(const Op& op, Problem problem, const InputFiles& files) {
  if (files.empty()) return problem;
  const Fields asked = problem.fields;
  std::map<std::int64_t, std::string> lengths;
  const Problem probe = make_probe(op, problem, lengths);
  const std::vector<ArrayInfo> always = op.arrays(op.normalize(probe));
  const std::vector<ArrayInfo> all = op.arrays(with_options(op, probe, problem));
  for (const auto& [name, file] : files) {
    const auto info = std::ranges::find(always, name, &ArrayInfo::name);
    if (info == always.end() && has_option(op, name)) continue;  // it may still be switched on
    find_array(op, all, name, &ArrayInfo::input, "--input");
    if (info == always.end()) continue;
    std::vector<std::int64_t> shape = file->header().shape;
    if (shape.size() == 1 && info->shape.size() == 2) shape.insert(shape.begin(), 1);
    if (shape.size() != info->shape.size())
      throw Error(ErrorCode::invalid_argument, name, " from '", file->path().string(), "' has ", shape.size(),
                  " dimensions (", shape_text(shape), "); ", op.name(), " takes ", dimensions_text(*info, lengths));
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (const auto field = lengths.find(info->shape[d]); field != lengths.end())
        set_extent(problem, asked, field->second, shape[d], name, *file);
    if (const std::string_view field = dtype_field_of(op, probe, name); !field.empty())
      set_dtype(op, problem, field, name, *file);
  }
  return problem;
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
