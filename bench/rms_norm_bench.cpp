// rms_norm with weights of the rows' dtype, as language models use it.

#include "bench/against_copy.h"
#include "tunesmith/rms_norm.h"

namespace tunesmith::bench {

void register_rms_norm(Engine& engine) {
  for (const DType dtype : {DType::bf16, DType::f32})
    for (const std::int64_t cols : {128, 1024, 2048, 4096, 5120, 8192, 16384, 65536, 262144})
      for (const Mode mode : {Mode::tune, Mode::off}) {
        RmsNormProblem problem{.rows = cols < 1024 ? 65536 : 4096, .cols = cols, .dtype = dtype};
        problem.weight = true;
        const std::string title = "rms_norm/" + std::string(name(dtype)) + "/" + std::to_string(problem.rows) + "x" +
                                  std::to_string(cols) + (mode == Mode::tune ? "/tuned" : "/default");
        register_against_copy(engine, title, to_problem(problem), mode);
      }
}

}  // namespace tunesmith::bench
