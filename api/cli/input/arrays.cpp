#include "api/cli/input/arrays.h"

#include <unistd.h>

#include <algorithm>

#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/nearest.h"
#include "api/cli/arguments/problem_flags.h"
#include "api/cli/report/table.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

std::vector<std::string> names_of(const std::vector<ArrayInfo>& arrays, bool ArrayInfo::*kind) {
  std::vector<std::string> names;
  for (const ArrayInfo& array : arrays)
    if (array.*kind) names.push_back(array.name);
  return names;
}

/// Elements of an array that follow each other in a file: the first one, and the distance to the next in memory.
struct Run {
  std::int64_t first, elements, step;
};

/// Calls visit(run) for the elements of every innermost row, row-major.
template <typename Visit>
void over_runs(const ArrayInfo& info, const Visit& visit) {
  if (info.elements() == 0) return;
  const std::size_t rank = info.shape.size();
  Run run{0, rank == 0 ? 1 : info.shape[rank - 1], rank == 0 ? 1 : info.strides[rank - 1]};
  std::vector<std::int64_t> index(rank, 0);
  for (;;) {
    run.first = 0;
    for (std::size_t d = 0; d + 1 < rank; ++d) run.first += index[d] * info.strides[d];
    visit(run);
    std::size_t d = rank < 2 ? 0 : rank - 1;
    for (; d > 0; --d) {
      if (++index[d - 1] < info.shape[d - 1]) break;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

}  // namespace

NpyType npy_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return NpyType::f4;
    case DType::f16: return NpyType::f2;
    case DType::bf16: return NpyType::u2;
    case DType::u8:
    case DType::e4m3:
    case DType::e5m2: return NpyType::u1;
    case DType::i8: return NpyType::i1;
    case DType::i32: return NpyType::i4;
    case DType::i64: return NpyType::i8;
    case DType::f64: return NpyType::f8;
  }
  return NpyType::f4;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t extent : shape) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return shape.empty() ? "a single value" : text;
}

std::vector<std::int64_t> without_ones(std::vector<std::int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

bool has_option(const Op& op, std::string_view field) {
  return std::ranges::any_of(op.problem_fields(), [&](const FieldInfo& info) { return info.option && info.name == field; });
}

const ArrayInfo& find_array(const Op& op, const std::vector<ArrayInfo>& arrays, const std::string& name,
                            bool ArrayInfo::*kind, const char* flag) {
  for (const ArrayInfo& array : arrays)
    if (array.name == name && array.*kind) return array;
  const std::vector<std::string> allowed = names_of(arrays, kind);
  const std::string how = has_option(op, name) ? "; '" + name + "' comes with " + flag_of(name) : "";
  throw Error(ErrorCode::invalid_argument, flag, " names the array '", name, "'; allowed: ", listed(allowed), how);
}

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
  std::map<std::filesystem::path, std::string> writers;
  for (const auto& [name, path] : files) {
    find_array(op, arrays, name, &ArrayInfo::output, "--output");
    if (const auto [other, is_new] = writers.emplace(path.lexically_normal(), name); !is_new)
      throw Error(ErrorCode::invalid_argument, "--output writes ", other->second, " and ", name, " to '", path.string(),
                  "'; expected a file for each array");
  }
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
  if (random_needed) op.parse(problem)->fill_inputs(seed, InputKind::random, arrays_);
  for (const HostArray& array : arrays_) {
    const auto file = files.find(array.info.name);
    if (file == files.end()) continue;
    const std::int64_t size = size_of(array.info.dtype);
    std::vector<std::byte> packed;
    over_runs(array.info, [&](const Run& run) {
      if (run.step == 1) return file->second->read(array.data + run.first * size, run.elements * size);
      packed.resize(static_cast<std::size_t>(run.elements * size));
      file->second->read(packed.data(), run.elements * size);
      for (std::int64_t i = 0; i < run.elements; ++i)
        std::copy_n(packed.data() + i * size, size, array.data + (run.first + i * run.step) * size);
    });
  }
}

void HostArrays::keep_inputs() {
  for (HostArray& array : arrays_) {
    if (!array.info.input || !array.info.output) continue;
    const auto bytes = static_cast<std::size_t>(array.info.extent_bytes());
    memory_.push_back(std::make_unique<std::byte[]>(bytes));
    std::copy_n(array.data, bytes, memory_.back().get());
    array.before = memory_.back().get();
  }
}

void write_array(const HostArray& array, bool one_row, const std::filesystem::path& path) {
  NpyWriter writer(path);
  std::vector<std::int64_t> shape = array.info.shape;
  if (one_row && shape.size() == 2 && shape[0] == 1) shape.erase(shape.begin());
  writer.write_header({npy_type(array.info.dtype), shape});
  const std::int64_t size = size_of(array.info.dtype);
  std::vector<std::byte> packed;
  over_runs(array.info, [&](const Run& run) {
    if (run.step == 1) return writer.write(array.data + run.first * size, run.elements * size);
    packed.resize(static_cast<std::size_t>(run.elements * size));
    for (std::int64_t i = 0; i < run.elements; ++i)
      std::copy_n(array.data + (run.first + i * run.step) * size, size, packed.data() + i * size);
    writer.write(packed.data(), run.elements * size);
  });
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
        device_.fill(addresses_.back(), 0xff, bytes);  // NaN, so that an element that is never written fails the check
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
