#include "api/cli/arrays.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "api/cli/flags.h"
#include "api/cli/nearest.h"
#include "api/cli/table.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

NpyType npy_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return NpyType::f4;
    case DType::f16: return NpyType::f2;
    case DType::bf16: return NpyType::u2;
    case DType::u8: return NpyType::u1;
    case DType::i32: return NpyType::i4;
    case DType::i64: return NpyType::i8;
  }
  return NpyType::f4;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t extent : shape) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return shape.empty() ? "a single value" : text;
}

std::vector<std::string> names_of(const std::vector<ArrayInfo>& arrays, bool ArrayInfo::*kind) {
  std::vector<std::string> names;
  for (const ArrayInfo& array : arrays)
    if (array.*kind) names.push_back(array.name);
  return names;
}

bool has_option(const Op& op, std::string_view field) {
  return std::ranges::any_of(op.problem_fields(), [&](const FieldInfo& info) { return info.option && info.name == field; });
}

const ArrayInfo& find_array(const Op& op, const std::vector<ArrayInfo>& arrays, const std::string& name,
                            bool ArrayInfo::*kind, const char* flag) {
  for (const ArrayInfo& array : arrays)
    if (array.name == name && array.*kind) return array;
  const std::vector<std::string> allowed = names_of(arrays, kind);
  const std::string how = has_option(op, name) ? "; '" + name + "' comes with --option " + name + "=VALUE" : "";
  throw Error(ErrorCode::invalid_argument, flag, " names the array '", name, "'; allowed: ", listed(allowed), how);
}

/// Calls visit(first element's index in the strided array, elements) for every stretch of adjacent elements, row-major.
template <typename Visit>
void over_runs(const ArrayInfo& info, const Visit& visit) {
  if (info.elements() == 0) return;
  const std::size_t rank = info.shape.size();
  const std::int64_t run = rank == 0 ? 1 : info.shape[rank - 1];
  std::vector<std::int64_t> index(rank, 0);
  for (;;) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d + 1 < rank; ++d) offset += index[d] * info.strides[d];
    visit(offset, run);
    std::size_t d = rank < 2 ? 0 : rank - 1;
    for (; d > 0; --d) {
      if (++index[d - 1] < info.shape[d - 1]) break;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

// Lengths that tell the required fields of a probe apart.
constexpr std::array<std::int64_t, 10> probe_lengths{2, 3, 5, 7, 11, 13, 17, 19, 23, 29};

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

/// Every way to bring an array that the problem does not have: a field and its value, in the order of the fields.
std::vector<std::pair<std::string, Value>> ways_to_bring(const Op& op, const Problem& problem, const std::string& name,
                                                         bool ArrayInfo::*kind) {
  std::vector<std::pair<std::string, Value>> ways;
  for (const FieldInfo& field : op.problem_fields()) {
    if (problem.fields.contains(field.name)) continue;
    std::vector<Value> values;
    for (const std::string_view word : field.words) values.emplace_back(std::string(word));
    if (is_switch(op, problem, field)) values.emplace_back(std::int64_t{1});
    for (const Value& value : values) {
      Problem with = problem;
      with.fields.set(field.name, value);
      if (array_of(op, with, name, kind)) ways.emplace_back(field.name, value);
    }
  }
  return ways;
}

std::vector<std::int64_t> without_ones(std::vector<std::int64_t> shape) {
  std::erase(shape, 1);
  return shape;
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

FileMap parse_files(const std::vector<std::string>& texts, std::string_view flag) {
  FileMap files;
  for (const std::string& text : texts) {
    auto [name, path] = split_pair(text, flag, "NAME=FILE.npy, e.g. x=data.npy");
    if (!files.emplace(name, path).second)
      throw Error(ErrorCode::invalid_argument, flag, " names the array '", name, "' twice");
  }
  return files;
}

InputFiles open_inputs(const FileMap& files) {
  InputFiles readers;
  for (const auto& [name, path] : files) readers.emplace(name, std::make_unique<NpyReader>(path));
  return readers;
}

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
    if (!ways.empty()) problem.fields.set(ways.front().first, ways.front().second);
  }
  for (const auto& [name, file] : inputs) {
    if (array_of(op, problem, name, &ArrayInfo::input)) continue;
    auto ways = ways_to_bring(op, problem, name, &ArrayInfo::input);
    if (ways.size() > 1)
      std::erase_if(ways, [&](const auto& way) {
        Problem with = problem;
        with.fields.set(way.first, way.second);
        return without_ones(array_of(op, with, name, &ArrayInfo::input)->shape) != without_ones(file->header().shape);
      });
    if (ways.size() == 1) problem.fields.set(ways.front().first, ways.front().second);
  }
  return problem;
}

bool one_row_given(const std::vector<ArrayInfo>& arrays, const InputFiles& files) {
  return std::ranges::any_of(arrays, [&](const ArrayInfo& info) {
    const auto file = files.find(info.name);
    return file != files.end() && info.shape.size() == 2 && file->second->header().shape.size() == 1;
  });
}

void check_files(const Op& op, const std::vector<ArrayInfo>& arrays, const InputFiles& files) {
  for (const auto& [name, file] : files) {
    const ArrayInfo& info = find_array(op, arrays, name, &ArrayInfo::input, "--input");
    const NpyHeader& header = file->header();
    if (without_ones(header.shape) != without_ones(info.shape) || header.type != npy_type(info.dtype))
      throw Error(ErrorCode::invalid_argument, name, " from '", file->path().string(), "' is ", shape_text(header.shape),
                  " of '", descr(header.type), "'; the problem takes ", shape_text(info.shape), " of '",
                  descr(npy_type(info.dtype)), "' (", tunesmith::name(info.dtype), ")");
  }
}

void check_outputs(const Op& op, const std::vector<ArrayInfo>& arrays, const FileMap& files) {
  for (const auto& [name, path] : files) find_array(op, arrays, name, &ArrayInfo::output, "--output");
}

HostArrays::HostArrays(const std::vector<ArrayInfo>& arrays) {
  double needed = 0;
  for (const ArrayInfo& info : arrays) needed += static_cast<double>(info.extent_bytes());
  const double present = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (needed > 0.9 * present)
    throw Error(ErrorCode::out_of_memory, "the arrays of this problem take ", bytes_text(needed), "; this machine has ",
                bytes_text(present), " of memory");
  for (const ArrayInfo& info : arrays) {
    memory_.push_back(std::make_unique<std::byte[]>(static_cast<std::size_t>(info.extent_bytes())));
    arrays_.push_back({info, memory_.back().get()});
  }
}

void HostArrays::fill(const Op& op, const Problem& problem, std::uint64_t seed, InputFiles& files) {
  const bool random_needed = std::ranges::any_of(
      arrays_, [&](const HostArray& array) { return array.info.input && !files.contains(array.info.name); });
  if (random_needed) op.fill_inputs(problem, seed, InputKind::random, arrays_);
  for (const HostArray& array : arrays_) {
    const auto file = files.find(array.info.name);
    if (file == files.end()) continue;
    const std::int64_t size = size_of(array.info.dtype);
    over_runs(array.info, [&](std::int64_t offset, std::int64_t elements) {
      file->second->read(array.data + offset * size, elements * size);
    });
  }
}

void write_array(const HostArray& array, bool one_row, const std::filesystem::path& path) {
  NpyWriter writer(path);
  std::vector<std::int64_t> shape = array.info.shape;
  if (one_row && shape.size() == 2 && shape[0] == 1) shape.erase(shape.begin());
  writer.write_header({npy_type(array.info.dtype), shape});
  const std::int64_t size = size_of(array.info.dtype);
  over_runs(array.info,
            [&](std::int64_t offset, std::int64_t elements) { writer.write(array.data + offset * size, elements * size); });
  writer.commit();
}

DeviceArrays::DeviceArrays(Device& device, const std::vector<HostArray>& arrays) : device_(device) {
  try {
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const ArrayInfo& info = arrays[i].info;
      const auto bytes = static_cast<std::size_t>(info.extent_bytes());
      void* shared = nullptr;
      for (std::size_t j = 0; j < i && !info.in_place_of.empty(); ++j)
        if (arrays[j].info.name == info.in_place_of) shared = addresses_[j];
      addresses_.push_back(shared);
      if (shared != nullptr || bytes == 0) continue;
      owned_.push_back(nullptr);
      owned_.back() = addresses_.back() = device_.allocate(bytes);
      if (info.input)
        device_.copy_to_device(addresses_.back(), arrays[i].data, bytes);
      else
        device_.fill(addresses_.back(), 0xff, bytes);  // NaN: an element that is never written cannot pass
    }
  } catch (...) {
    for (void* memory : owned_) device_.release(memory);
    throw;
  }
}

DeviceArrays::~DeviceArrays() {
  for (void* memory : owned_) device_.release(memory);
}

void DeviceArrays::fetch_outputs(std::vector<HostArray>& arrays) const {
  for (std::size_t i = 0; i < arrays.size(); ++i)
    if (arrays[i].info.output && addresses_[i] != nullptr)
      device_.copy_to_host(arrays[i].data, addresses_[i], static_cast<std::size_t>(arrays[i].info.extent_bytes()));
}

}  // namespace tunesmith::cli
