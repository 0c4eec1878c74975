#include "templates/cross_entropy/finalize_op.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/half.h"
#include "templates/cross_entropy/finalize_params.cuh"
#include "templates/cross_entropy/problem.h"

namespace tunesmith::cross_entropy {
namespace {

struct Sum {
  double total = 0, magnitude = 0;
};

Sum sum_of(const HostArray& array) {
  Sum sum;
  for (std::int64_t i = 0; i < array.info.shape[0]; ++i) {
    const double value = read_element(array.info.dtype, array.data, i);
    sum.total += value;
    sum.magnitude += std::fabs(value);
  }
  return sum;
}

}  // namespace

KeyParts ParsedDivisor::key() const {
  return {"targets=" + std::string(name(p_.target_dtype)) + ",weight=" + (p_.weight ? "1" : "0") +
              (p_.scaled_weight ? ",scaled_weight=1" : ""),
          std::max<std::int64_t>(p_.rows, 1), 1};
}

SourceParts ParsedDivisor::parts_of(const OneBlockConfig&) const {
  const bool narrow = p_.target_dtype == DType::i32;
  return one_block::source(
      "cross_entropy_divisor", "DivisorParams", sizeof(DivisorParams),
      std::string("<") + (narrow ? "int" : "tunesmith::int64") + (p_.scaled_weight ? ", true>" : ", false>"));
}

LaunchPlan ParsedDivisor::plan_of(const OneBlockConfig&, const DeviceInfo&) const {
  DivisorParams params{};
  params.rows = p_.rows;
  params.cols = p_.cols;
  params.ignore_index = p_.ignore_index;
  std::vector<std::size_t> offsets{offsetof(DivisorParams, targets)};
  if (p_.weight) offsets.push_back(offsetof(DivisorParams, weight));
  if (p_.dloss == Upstream::scalar) offsets.push_back(offsetof(DivisorParams, dloss));
  offsets.push_back(offsetof(DivisorParams, divisor));
  offsets.push_back(offsetof(DivisorParams, gradient_scale));
  if (p_.scaled_weight) offsets.push_back(offsetof(DivisorParams, scaled_weight));
  return one_block::launch_plan("cross_entropy_divisor", params, arrays(), offsets);
}

void ParsedDivisor::fill_inputs(std::uint64_t seed, InputKind, std::span<const HostArray> arrays) const {
  const std::int64_t cols = p_.cols, ignored = p_.ignore_index;
  for (const HostArray& array : arrays) {
    if (!array.info.input) continue;
    for (std::int64_t i = 0; i < array.info.shape[0]; ++i) {
      const double value = one_block::noise(seed, array, i);
      if (is_float(array.info.dtype))
        write_element(array.info.dtype, array.data, i, static_cast<float>(value + 0.5));
      else  // every eighth row is ignored, and some targets are out of range
        write_integer(array.info.dtype, array.data, i,
                      i % 8 == 7     ? ignored
                      : i % 97 == 41 ? cols
                                     : static_cast<std::int64_t>(value * static_cast<double>(cols)));
    }
  }
}

CheckResult ParsedDivisor::check(std::span<const HostArray> arrays, std::int64_t) const {
  const std::int64_t rows = p_.rows, cols = p_.cols;
  const HostArray& targets = arrays[0];
  const HostArray* const weight = find(arrays, "weight");
  const HostArray* const dloss = find(arrays, "dloss");
  Sum sum;
  double counted = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t target = read_integer(targets.info.dtype, targets.data, r);
    if (target == p_.ignore_index || target < 0 || target >= cols) continue;
    const double term = weight != nullptr ? read_element(DType::f32, weight->data, target) : 1.0;
    sum.total += term;
    sum.magnitude += std::fabs(term);
    ++counted;
  }
  one_block::Comparison comparison(rows);
  if (p_.scaled_weight) {
    const HostArray& scaled = *find(arrays, "scaled_weight");
    for (std::int64_t c = 0; c < cols; ++c) {
      const double expected = read_element(DType::f32, weight->data, c) * counted / sum.total;
      comparison.compare("scaled_weight", scaled, expected, std::fabs(expected), c);
    }
    sum = {counted, counted};
  }
  comparison.compare("divisor", *find(arrays, "divisor"), sum.total, sum.magnitude);
  const double upstream = dloss != nullptr ? read_element(DType::f32, dloss->data, 0) : 1.0;
  const double scale = sum.total == 0 ? 0.0 : upstream / sum.total;
  comparison.compare("gradient_scale", *find(arrays, "gradient_scale"), scale, std::fabs(scale));
  return comparison.result();
}

KeyParts ParsedReduce::key() const {
  return {std::string("z_losses=") + (p_.z_losses ? "1" : "0"), std::max<std::int64_t>(p_.rows, 1), 1};
}

SourceParts ParsedReduce::parts_of(const OneBlockConfig&) const {
  return one_block::source("cross_entropy_reduce", "ReduceParams", sizeof(ReduceParams), "");
}

LaunchPlan ParsedReduce::plan_of(const OneBlockConfig&, const DeviceInfo&) const {
  ReduceParams params{};
  params.rows = p_.rows;
  std::vector<std::size_t> offsets{offsetof(ReduceParams, losses)};
  if (p_.z_losses) offsets.push_back(offsetof(ReduceParams, z_losses));
  if (p_.divisor) offsets.push_back(offsetof(ReduceParams, divisor));
  offsets.push_back(offsetof(ReduceParams, loss));
  if (p_.z_losses) offsets.push_back(offsetof(ReduceParams, z_loss));
  return one_block::launch_plan("cross_entropy_reduce", params, arrays(), offsets);
}

void ParsedReduce::fill_inputs(std::uint64_t seed, InputKind, std::span<const HostArray> arrays) const {
  for (const HostArray& array : arrays) {
    if (!array.info.input) continue;
    for (std::int64_t i = 0; i < array.info.shape[0]; ++i)
      write_element(DType::f32, array.data, i, static_cast<float>(12 * one_block::noise(seed, array, i) + 0.25));
  }
}

CheckResult ParsedReduce::check(std::span<const HostArray> arrays, std::int64_t) const {
  const HostArray* const divisor = find(arrays, "divisor");
  const double by = divisor != nullptr ? read_element(DType::f32, divisor->data, 0) : 1.0;
  one_block::Comparison comparison(p_.rows);
  const auto compare = [&](const char* terms, const char* total) {
    const Sum sum = sum_of(*find(arrays, terms));
    comparison.compare(total, *find(arrays, total), sum.total / by, std::fabs(sum.magnitude / by));
  };
  compare("losses", "loss");
  if (p_.z_losses) compare("z_losses", "z_loss");
  return comparison.result();
}

}  // namespace tunesmith::cross_entropy
