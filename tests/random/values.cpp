// What the inputs of a random case hold.

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "core/half.h"
#include "tests/random/case.h"
#include "tests/random/chance.h"
#include "tuner/array_layout.h"

namespace tunesmith::test {
namespace {

/// Returns whether an input may hold any numbers. Others are results of a forward operation on the other inputs, or have
/// limits of their own: weights of classes are not negative, and arrays that user functions of attention read are part of
/// scores.
bool is_free(std::string_view op, std::string_view array) {
  const auto is_one_of = [array](std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, array) != names.end();
  };
  if (op == "attention") return is_one_of({"q", "k", "v"});
  if (op == "attention_backward") return is_one_of({"dout", "dlse"});
  if (op == "kv_append") return is_one_of({"q", "k", "v"});
  if (op == "merge_attention_parts") return array == "o_parts";
  if (op == "cross_entropy_combine") return false;
  if (op.starts_with("cross_entropy") && array == "weight") return false;
  return !op.ends_with("backward") || !is_one_of({"y", "logits", "lse", "lse_low", "nll", "hidden", "weight", "entropy"});
}

struct Limits {
  double most, min_subnormal;
};
Limits limits_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return {65504, 0x1p-24};
    case DType::bf16: return {0x1.fep127, 0x1p-133};
    case DType::f64: return {std::numeric_limits<double>::max(), 0x1p-1074};
    default: return {0x1.fffffep127, 0x1p-149};
  }
}

/// Returns how large the largest values of an operation are, as a share of the largest number.
double far_of(std::string_view op, DType dtype) {
  // Products of two values, and their sums.
  if (op == "matmul" || op == "linear_loss" || op == "kv_append") return dtype == DType::f16 ? 1 : 0x1p-70;
  // Differences, scales, z_loss and label smoothing go beyond the largest numbers.
  return op.starts_with("cross_entropy") || op.ends_with("backward") ? 0x1p-40 : 1;
}

double value_of(Values values, DType dtype, double far, double present, Chance& chance) {
  const Limits limits = limits_of(dtype);
  switch (values) {
    case Values::zeros: return chance.with(0.5) ? 0.0 : -0.0;
    case Values::ties: return static_cast<double>(chance.below(3)) - 1;
    case Values::subnormal: return static_cast<double>(chance.below(15) - 7) * limits.min_subnormal;
    case Values::offset: return (dtype == DType::f64 ? 1e6 : 1000) + static_cast<double>(chance.below(8));
    case Values::huge: return chance.with(0.3) ? limits.most * far * (chance.with(0.5) ? 1 : -1) : present;
    case Values::infinite: return chance.with(0.05) ? (chance.with(0.5) ? INFINITY : -INFINITY) : present;
    case Values::nan: return chance.with(0.03) ? NAN : present;
    default: return present;
  }
}

}  // namespace

Values values_in(Values values, const ParsedProblem& problem) {
  if (values <= Values::random) return values;
  const std::string_view op = problem.op().name();
  // In a K/V tile, NaN and infinities reach every row, masked pairs included, and products may overflow.
  if (op.starts_with("attention") && values >= Values::huge) return Values::random;
  const auto is_changed = [&](const ArrayInfo& array) {
    return array.input && is_float(array.dtype) && is_free(op, array.name);
  };
  return std::ranges::any_of(problem.array_view(), is_changed) ? values : Values::random;
}

void fill_values(const RandomCase& random_case, const ParsedProblem& problem, std::span<const HostArray> arrays) {
  const Values values = values_in(random_case.values, problem);
  if (values == Values::edge_cases) return;
  problem.fill_inputs(random_case.seed, InputKind::random, arrays);
  if (values == Values::random) return;
  const std::string_view op = problem.op().name();
  for (const HostArray& array : arrays) {
    if (!array.info.input || !is_float(array.info.dtype) || !is_free(op, array.info.name)) continue;
    Chance chance(mixed(random_case.seed, array.info.name));
    const double far = far_of(op, array.info.dtype);
    for (const ElementRun& run : element_runs(array.info))
      for (std::int64_t i = run.begin; i < run.begin + run.count; ++i)
        write_element(array.info.dtype, array.data, i,
                      value_of(values, array.info.dtype, far, read_element(array.info.dtype, array.data, i), chance));
  }
}

}  // namespace tunesmith::test
