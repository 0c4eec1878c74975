// Row programs next to the operations that they restate, and programs that no other operation computes: share of a copy of
// the same arrays.

#include "bench/against_copy.h"
#include "tunesmith/rms_norm.h"
#include "tunesmith/row_program.h"
#include "tunesmith/softmax.h"

namespace tunesmith::bench {
namespace {

constexpr const char* rms_norm = R"(
in  x : float[row, col]
in  w : float[col]
num eps : f32 = 1e-6
sum ss = x * x
out y : float[row, col] = x * rsqrt(ss / cols + eps) * w
)";

constexpr const char* softmax = R"(
in  x : float[row, col]
max m = x
e = exp(x - m)
sum s = e
out y : float[row, col] = e / s
)";

constexpr const char* swiglu = R"(
in  gate, up : float[row, col]
out y : float[row, col] = gate * sigmoid(gate) * up
)";

constexpr const char* add_rms_norm = R"(
in  x, r : float[row, col]
in  w    : float[col]
num eps  : f32 = 1e-6
h : float = x + r
sum ss = h * h
out res : float[row, col] = h
out y   : float[row, col] = h * rsqrt(ss / cols + eps) * w
)";

constexpr const char* rms_norm_e4m3 = R"(
in  x : float[row, col]
in  w : float[col]
num eps : f32 = 1e-6
sum ss = x * x
y = x * rsqrt(ss / cols + eps) * w
max a = abs(y)
q = max(a, 1e-12) / 448
out scale : f32[row]       = q
out z     : e4m3[row, col] = y / q
)";

constexpr const char* quantize = R"(
in  x : float[row, col]
max a = abs(x)
q = max(a, 1e-12) / 127
out scale : f32[row]     = q
out z     : i8[row, col] = x / q
)";

std::string title(const char* name, DType dtype, std::int64_t rows, std::int64_t cols, Mode mode) {
  return std::string(name) + "/" + std::string(tunesmith::name(dtype)) + "/" + std::to_string(rows) + "x" +
         std::to_string(cols) + (mode == Mode::tune ? "/tuned" : "/default");
}

}  // namespace

void register_row_program(Engine& engine) {
  struct Named {
    const char *name, *text;
  };
  const Named programs[] = {
      {"rms_norm", rms_norm},           {"softmax", softmax},  {"swiglu", swiglu}, {"add_rms_norm", add_rms_norm},
      {"rms_norm_e4m3", rms_norm_e4m3}, {"quantize", quantize}};
  for (const DType dtype : {DType::bf16, DType::f32})
    for (const std::int64_t cols : {1024, 4096, 16384, 65536})
      for (const Mode mode : {Mode::tune, Mode::off}) {
        const std::int64_t rows = cols < 4096 ? 32768 : cols < 65536 ? 8192 : 1024;
        for (const Named& program : programs) {
          RowProgramProblem problem;
          problem.program = program.text;
          problem.rows = rows;
          problem.cols = cols;
          problem.dtype = dtype;
          register_against_copy(engine, title(("row_program/" + std::string(program.name)).c_str(), dtype, rows, cols, mode),
                                to_problem(problem), mode);
        }
        RmsNormProblem norm{.rows = rows, .cols = cols, .dtype = dtype};
        norm.weight = true;
        register_against_copy(engine, title("row_program/builtin_rms_norm", dtype, rows, cols, mode), to_problem(norm),
                              mode);
        register_against_copy(engine, title("row_program/builtin_softmax", dtype, rows, cols, mode),
                              to_problem(SoftmaxProblem{.rows = rows, .cols = cols, .dtype = dtype}), mode);
      }
}

}  // namespace tunesmith::bench
