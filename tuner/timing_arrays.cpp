#include "tuner/timing_arrays.h"

#include <algorithm>

#include "tuner/array_layout.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

constexpr std::int64_t host_sample_bytes = 4 << 20;  // generated on the host; the rest is copies of it
constexpr std::int64_t widest_access = 16;

std::int64_t total_bytes(const ParsedProblem& problem) {
  const std::vector<ArrayInfo> arrays = problem.arrays();
  const std::vector<std::size_t> owners = storage_owners(arrays);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    if (owners[i] == i) bytes += arrays[i].extent_bytes();
  return bytes;
}

/// Returns the field that timing may reduce: rows, or batch if sequences are not packed; empty if there is none.
std::string_view count_field(const Problem& problem) {
  if (problem.fields.contains("rows")) return "rows";
  return problem.fields.contains("batch") && !problem.fields.contains("total_q") ? "batch" : "";
}

/// Returns its value, or 0 without such a field.
std::int64_t rows_of(const ParsedProblem& problem) {
  const std::string_view field = count_field(problem.problem());
  return field.empty() ? 0 : problem.problem().fields.integer(field);
}

ParsedProblemPtr with_rows(const ParsedProblem& problem, std::int64_t rows) {
  return problem.with({{std::string(count_field(problem.problem())), rows}});
}

/// Throws Error(out_of_memory) when not even one row fits.
ParsedProblemPtr fit(const ParsedProblemPtr& problem, std::int64_t limit_bytes) {
  const auto too_large = [&](std::int64_t bytes) {
    return Error(ErrorCode::out_of_memory, "tuning ", problem->problem().short_text(), " needs arrays of ", bytes,
                 " bytes; at most ", limit_bytes, " (memory_cap_bytes and half of the device's memory) may be used");
  };
  ParsedProblemPtr reduced = problem;
  std::int64_t bytes = total_bytes(*reduced);
  while (bytes > limit_bytes) {
    const std::int64_t rows = rows_of(*reduced);
    if (rows <= 1) throw too_large(bytes);
    const double share = static_cast<double>(limit_bytes) / static_cast<double>(bytes);
    reduced = with_rows(*reduced,
                        std::clamp<std::int64_t>(static_cast<std::int64_t>(static_cast<double>(rows) * share), 1, rows - 1));
    bytes = total_bytes(*reduced);
  }
  return reduced;
}

/// Bytes after which an array of few rows may be repeated to give one of many; its whole extent when rows are not its
/// leading dimension.
std::int64_t period_bytes(const ArrayInfo& few, const ArrayInfo& many) {
  const bool is_by_rows = !few.shape.empty() && few.shape.size() == many.shape.size() && few.shape[0] != many.shape[0] &&
                          few.strides[0] > 0;  // else broadcast
  return is_by_rows ? few.shape[0] * few.strides[0] * size_of(few.dtype) : few.extent_bytes();
}

}  // namespace

TimingArrays::TimingArrays(const ParsedProblemPtr& problem, Device& device, std::int64_t cap_bytes, std::uint64_t seed) {
  const std::int64_t half = device.info().memory_bytes / 2;
  const std::int64_t limit_bytes = half > 0 ? std::min(cap_bytes, half) : cap_bytes;
  problem_ = fit(problem, limit_bytes);
  while (true) {
    try {
      allocate(device);
      break;
    } catch (const Error& error) {  // memory that others hold
      if (error.code() != ErrorCode::out_of_memory || rows_of(*problem_) <= 1) throw;
      memory_.clear();
      problem_ = with_rows(*problem_, rows_of(*problem_) / 2);
    }
  }
  fill(device, seed);
}

void TimingArrays::allocate(Device& device) {
  const std::vector<ArrayInfo> arrays = problem_->arrays();
  owners_ = storage_owners(arrays);
  memory_.clear();
  addresses_.clear();
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (owners_[i] != i) {
      memory_.emplace_back();
      addresses_.push_back(addresses_[owners_[i]]);
      continue;
    }
    // Less than the widest access promised: then real addresses are off by that much, and lines are split accordingly.
    const std::int64_t offset = arrays[i].alignment < widest_access ? arrays[i].alignment : 0;
    memory_.emplace_back(device, static_cast<std::size_t>(arrays[i].extent_bytes() + offset));
    addresses_.push_back(memory_.back().get() + offset);
  }
}

// The host makes a few megabytes and the device repeats them: the values only need to be ordinary.
void TimingArrays::fill(Device& device, std::uint64_t seed) {
  ParsedProblemPtr sample = problem_;
  if (const std::int64_t rows = rows_of(*problem_); rows > 0) {
    const std::int64_t row_bytes = std::max<std::int64_t>(1, total_bytes(*problem_) / rows);
    sample = with_rows(*problem_, std::clamp<std::int64_t>(host_sample_bytes / row_bytes, 1, rows));
  }
  const std::vector<ArrayInfo> few = sample->arrays();
  const std::vector<ArrayInfo> many = problem_->arrays();
  std::vector<std::vector<std::byte>> contents;
  std::vector<HostArray> host;
  for (std::size_t i = 0; i < few.size(); ++i)
    contents.emplace_back(static_cast<std::size_t>(std::max(few[i].extent_bytes(), period_bytes(few[i], many[i]))));
  for (std::size_t i = 0; i < few.size(); ++i) host.push_back({few[i], contents[i].data()});
  sample->fill_inputs(seed, InputKind::random, host);

  for (std::size_t i = 0; i < many.size(); ++i) {
    const auto extent = static_cast<std::size_t>(many[i].extent_bytes());
    if (owners_[i] != i || extent == 0) continue;
    if (!many[i].input) {
      device.fill(addresses_[i], 0, extent);
      continue;
    }
    auto* const base = static_cast<std::byte*>(addresses_[i]);
    std::size_t filled = std::min(extent, static_cast<std::size_t>(period_bytes(few[i], many[i])));
    device.copy_to_device(base, contents[i].data(), filled);
    while (filled < extent) {
      const std::size_t bytes = std::min(filled, extent - filled);
      device.copy_on_device(base + filled, base, bytes);
      filled += bytes;
    }
  }
}

}  // namespace tunesmith
