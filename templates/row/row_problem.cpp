#include "templates/row/row_problem.h"

#include <algorithm>

#include "templates/row/config.h"
#include "templates/row/launch.h"
#include "tunesmith/error.h"

namespace tunesmith::row {

KeyParts RowProblem::key() const {
  KeyParts parts;
  parts.problem_class = shape_.problem_class() + problem_class_;
  parts.n_cols = shape_.cols;
  parts.rows_bucket = shape_.tuned_rows_bucket();
  return parts;
}

TypedConfig RowProblem::default_of(const DeviceInfo& device) const { return row::default_config(shape_, device); }

Config RowProblem::complete_config(const DeviceInfo& device, const Config& partial) const {
  return row::complete_config(partial, shape_, device);
}

std::vector<Config> RowProblem::search_space(const DeviceInfo& device, Effort effort) const {
  return row::search_space(shape_, device, effort);
}

std::string RowProblem::why_invalid_of(const DeviceInfo& device, const TypedConfig& config) const {
  return row::why_invalid(config, shape_, device);
}

LaunchPlan RowProblem::plan_of(const TypedConfig& config, const DeviceInfo& device) const {
  return row::launch_plan(config, shape_, device, std::string(op().name()), array_view(), own_,
                          usual_part_bytes * shape_.words_of_value());
}

std::string capacity_class(const ParsedProblem& problem, const Shape& shape) {
  const std::span<const FieldInfo> infos = problem.op().cached_fields();
  std::string text = shape.capacity_class();
  for (const auto& [name, value] : problem.problem().fields) {
    const auto info = std::ranges::find(infos, std::string_view(name), &FieldInfo::name);
    const bool is_size = name == "cols" || name == "vocab_size" || name == "row_strides" || name.ends_with("_row_stride") ||
                         (info != infos.end() && info->runtime);
    if (!is_size) text.append(" ").append(name).append("=").append(tunesmith::text(value));
  }
  return text;
}

std::vector<ParsedProblemPtr> in_buckets(const ParsedProblem& problem, const Shape& shape, std::int64_t least,
                                         std::int64_t most) {
  // Widths with the same remainder end in the same part of a vector: of 16 bytes, and no element is smaller than a byte.
  constexpr std::int64_t period = 16;
  const std::string problem_class = problem.capacity_class();
  std::vector<ParsedProblemPtr> problems;
  Shape bucket = shape;
  for (bucket.cols = std::max<std::int64_t>(least, 1);; bucket.cols = bucket.capacity() + 1) {
    const std::int64_t last = bucket.capacity();
    if (last > most || last < bucket.cols) break;  // there are no columns after those of the last bucket
    const std::int64_t cols = last - (((last - shape.cols) % period + period) % period);
    if (cols < 1) continue;
    Fields changes;
    changes.set("cols", cols);
    for (const auto& [name, value] : problem.problem().fields)
      if ((name == "vocab_size" || name.ends_with("_row_stride")) && value == Value(shape.cols)) changes.set(name, cols);
    try {
      ParsedProblemPtr other = problem.with(changes);
      if (other->capacity() == last && other->capacity_class() == problem_class) problems.push_back(std::move(other));
    } catch (const Error&) {  // the arrays have no rows of this width
    }
  }
  return problems;
}

std::optional<Config> RowProblem::capacity_config(const DeviceInfo& device) const {
  return row::capacity_config(shape_, device).to_config();
}

std::string RowProblem::capacity_class() const { return row::capacity_class(*this, shape_) + problem_class_; }

std::vector<ParsedProblemPtr> RowProblem::in_buckets(std::int64_t least, std::int64_t most) const {
  return row::in_buckets(*this, shape_, least, most);
}

SourceParts RowProblem::parts_of(const TypedConfig& config) const {
  const Shape shape = config.view(shape_);
  return row::source_parts(config, shape, std::string(op().name()), kernels(config, shape), own_);
}

Cost RowProblem::cost_of_arrays(double flops) const {
  Cost cost;
  cost.flops = flops;
  for (const ArrayInfo& array : arrays())
    (array.input ? cost.bytes_read : cost.bytes_written) +=
        static_cast<double>(array.elements()) * static_cast<double>(size_of(array.dtype));
  return cost;
}

Problem RowProblem::verification_problem() const {
  // About a million elements, with enough rows for all edge cases, and a number that no block size divides.
  Problem small = problem();
  small.fields.set("rows", std::clamp<std::int64_t>((std::int64_t{1} << 20) / shape_.cols, 16, 512) + 1);
  return small;
}

}  // namespace tunesmith::row
