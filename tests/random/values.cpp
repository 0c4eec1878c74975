// What the inputs of a random case hold.

#include <array>
#include <limits>

#include "core/half.h"
#include "tests/random/case.h"
#include "tests/random/chance.h"
#include "tuner/array_layout.h"

namespace tunesmith::test {
namespace {

/// Returns whether an input may hold any numbers: others are results of a forward operation on the other inputs.
bool is_free(std::string_view op, std::string_view array) {
  if (op == "attention_backward") return array == "dout" || array == "dlse";
  if (op == "attention") return array == "q" || array == "k" || array == "v";
  if (op.ends_with("softmax_backward")) return array == "dy";
  if (op == "cross_entropy_backward") return array == "dloss" || array == "dlse";
  if (op == "cross_entropy" || op == "cross_entropy_shard") return array == "logits";  // class weights are not negative
  if (op == "softmax" || op == "log_softmax") return array == "x";
  return op == "rms_norm" || op == "row_program";
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

/// `far`: how large the largest values are, as a share of the largest number.
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

void fill_values(const RandomCase& random_case, const ParsedProblem& problem, std::span<const HostArray> arrays) {
  if (random_case.values == Values::edge_cases) return;
  problem.fill_inputs(random_case.seed, InputKind::random, arrays);
  if (random_case.values == Values::random) return;
  const std::string_view op = problem.op().name();
  // In a K/V tile, NaN and infinities reach every row, masked pairs included, and products may overflow.
  if (op.starts_with("attention") && random_case.values >= Values::huge) return;
  // Differences, scales, z_loss and label smoothing go beyond the largest numbers.
  const double far = op.starts_with("cross_entropy") || op.ends_with("backward") ? 0x1p-40 : 1;
  for (const HostArray& array : arrays) {
    if (!array.info.input || !is_float(array.info.dtype) || !is_free(op, array.info.name)) continue;
    Chance chance(mixed(random_case.seed, array.info.name));
    for (const ElementRun& run : element_runs(array.info))
      for (std::int64_t i = run.begin; i < run.begin + run.count; ++i)
        write_element(
            array.info.dtype, array.data, i,
            value_of(random_case.values, array.info.dtype, far, read_element(array.info.dtype, array.data, i), chance));
  }
}

}  // namespace tunesmith::test
