// Row programs next to the operations that they restate, and programs that no other operation computes: share of a copy of
// the same arrays.

#include <utility>
#include <vector>

#include "bench/against_copy.h"
#include "templates/row_program/language/programs.h"
#include "tunesmith/row_program.h"
#include "tunesmith/softmax.h"

namespace tunesmith::bench {
namespace {

/// The shipped one has one stage: lse.
constexpr const char* softmax_in_two_stages = R"(
in x : float[row, col]
max m = x
e = exp(x - m)
sum s = e
out y : float[row, col] = e / s
)";

std::string title(const std::string& name, DType dtype, std::int64_t rows, std::int64_t cols, Mode mode) {
  return name + "/" + std::string(tunesmith::name(dtype)) + "/" + std::to_string(rows) + "x" + std::to_string(cols) +
         (mode == Mode::tune ? "/tuned" : "/default");
}

}  // namespace

void register_row_program(Engine& engine) {
  std::vector<std::pair<std::string, std::string>> programs{{"softmax_in_two_stages", softmax_in_two_stages}};
  for (const char* name : {"rms_norm", "softmax", "layer_norm", "swiglu", "add_rms_norm", "rms_norm_e4m3", "row_quantize"})
    programs.emplace_back(name, row_program::shipped_program(name));
  for (const DType dtype : {DType::bf16, DType::f32})
    for (const std::int64_t cols : {1024, 4096, 16384, 65536})
      for (const Mode mode : {Mode::tune, Mode::off}) {
        const std::int64_t rows = cols < 4096 ? 32768 : cols < 65536 ? 8192 : 1024;
        for (const auto& [name, text] : programs) {
          RowProgramProblem problem;
          problem.program = text;
          problem.rows = rows;
          problem.cols = cols;
          problem.dtype = dtype;
          register_against_copy(engine, title("row_program/" + name, dtype, rows, cols, mode), to_problem(problem), mode);
        }
        register_against_copy(engine, title("row_program/builtin_softmax", dtype, rows, cols, mode),
                              to_problem(SoftmaxProblem{.rows = rows, .cols = cols, .dtype = dtype}), mode);
      }
}

}  // namespace tunesmith::bench
