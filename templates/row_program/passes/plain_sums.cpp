#include "templates/row_program/passes/plain_sums.h"

#include <algorithm>

#include "templates/row_program/problem.h"

namespace tunesmith::row_program {

bool allows_plain_sums(const Program& program) {
  const auto bytes = [](const auto& array) { return size_of(dtype_of(array.type.value_or(Type::f32))); };
  std::int64_t widest = 0;  // of the outputs [row, col]
  for (const Output& output : program.outputs)
    if (output.kind == Kind::full) widest = std::max(widest, bytes(output));
  const bool has_f32 = std::ranges::count(program.outputs, std::optional(Type::f32), &Output::type) > 0;
  const bool narrow_inputs =
      std::ranges::all_of(program.inputs, [&](const Input& input) { return input.kind != Kind::full || bytes(input) <= 2; });
  return !computes_in_f64(program) && narrow_inputs && widest > 0 && widest <= (has_f32 ? 1 : 2);
}

}  // namespace tunesmith::row_program
