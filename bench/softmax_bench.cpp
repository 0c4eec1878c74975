// Softmax against a device copy of the same bytes, interleaved in one run: GB/s and share of the copy.

#include "bench/against_copy.h"
#include "tunesmith/softmax.h"

namespace tunesmith::bench {
namespace {

struct Shape {
  std::int64_t rows, cols;
};

}  // namespace

void register_softmax(Engine& engine) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const Shape shape : {Shape{65536, 128},
                              {32768, 1024},
                              {4096, 256},
                              {4096, 781},
                              {4096, 1024},
                              {4096, 4096},
                              {4096, 8192},
                              {4096, 16384},
                              {4096, 32000},
                              {4096, 32768},
                              {4096, 131072},
                              {16, 262144}})
      for (const Mode mode : {Mode::tune, Mode::off}) {
        if (dtype == DType::f16 && mode == Mode::off) continue;  // equals bf16
        const std::string title = "softmax/" + std::string(name(dtype)) + "/" + std::to_string(shape.rows) + "x" +
                                  std::to_string(shape.cols) + (mode == Mode::tune ? "/tuned" : "/default");
        const SoftmaxProblem problem = SoftmaxProblem::contiguous(shape.rows, shape.cols, dtype);
        register_against_copy(engine, title, to_problem(problem), mode);
      }
}

}  // namespace tunesmith::bench
