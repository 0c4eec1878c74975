// The C API of linear + cross-entropy.

#include "tunesmith/linear_cross_entropy.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "api/c/calls.h"
#include "api/c/struct.h"
#include "tunesmith/c_api.h"

using namespace tunesmith;

struct tunesmith_linear_cross_entropy {
  LinearCrossEntropy prepared;
};

namespace {

static_assert(static_cast<int>(Reduction::sum) == TUNESMITH_REDUCTION_SUM &&
              static_cast<int>(Reduction::none) == TUNESMITH_REDUCTION_NONE);

LinearCrossEntropyProblem problem_from_c(const tunesmith_linear_cross_entropy_problem& from) {
  constexpr std::size_t first_version =
      offsetof(tunesmith_linear_cross_entropy_problem, chunk_tokens) + sizeof(std::int64_t);
  const auto given = known_fields(from, first_version, "problem", "tunesmith_linear_cross_entropy_problem");
  if (given.dtype < TUNESMITH_F32 || given.dtype > TUNESMITH_BF16)
    throw Error(ErrorCode::invalid_argument, "dtype is ", given.dtype,
                "; allowed: TUNESMITH_F32 (0), TUNESMITH_F16 (1), TUNESMITH_BF16 (2)");
  if (given.reduction < TUNESMITH_REDUCTION_MEAN || given.reduction > TUNESMITH_REDUCTION_NONE)
    throw Error(ErrorCode::invalid_argument, "reduction is ", given.reduction, "; allowed: 0 (mean), 1 (sum), 2 (none)");
  LinearCrossEntropyProblem problem;
  problem.tokens = given.tokens;
  problem.hidden_size = given.hidden_size;
  problem.vocab_size = given.vocab_size;
  problem.dtype = static_cast<DType>(given.dtype);
  if (given.i32_targets != 0) problem.target_dtype = DType::i32;
  problem.f32_logits = given.f32_logits != 0;
  problem.dhidden = given.dhidden != 0;
  problem.dweight = given.dweight != 0;
  problem.f32_dweight = given.f32_dweight != 0;
  problem.reduction = static_cast<Reduction>(given.reduction);
  problem.dloss = given.dloss != 0;
  problem.class_weight = given.class_weight != 0;
  problem.nll = given.nll != 0;
  problem.predicted = given.predicted != 0;
  problem.caller_workspace = given.caller_workspace != 0;
  if (given.ignore_index != nullptr) problem.ignore_index = *given.ignore_index;
  problem.label_smoothing = given.label_smoothing;
  problem.z_loss = given.z_loss;
  problem.softcap = given.softcap;
  if (given.scale != 0) problem.scale = given.scale;
  if (given.memory_bytes != 0) problem.memory_bytes = given.memory_bytes;
  problem.chunk_tokens = given.chunk_tokens;
  return problem;
}

LinearCrossEntropyArrays arrays_from_c(const tunesmith_linear_cross_entropy_arrays& from) {
  constexpr std::size_t first_version = offsetof(tunesmith_linear_cross_entropy_arrays, workspace) + sizeof(void*);
  const auto given = known_fields(from, first_version, "arrays", "tunesmith_linear_cross_entropy_arrays");
  return {given.hidden, given.weight, given.targets,   given.class_weight, given.dloss,   given.loss,     given.lse,
          given.z_loss, given.nll,    given.predicted, given.dhidden,      given.dweight, given.workspace};
}

}  // namespace

tunesmith_status tunesmith_linear_cross_entropy_prepare(tunesmith_engine* engine,
                                                        const tunesmith_linear_cross_entropy_problem* problem,
                                                        tunesmith_linear_cross_entropy** prepared) {
  return guarded([&] {
    tunesmith_linear_cross_entropy*& result = given(prepared, "prepared");
    const LinearCrossEntropyProblem described = problem_from_c(given(problem, "problem"));
    result = new tunesmith_linear_cross_entropy{LinearCrossEntropy(given(engine, "engine").engine, described)};
  });
}

void tunesmith_linear_cross_entropy_destroy(tunesmith_linear_cross_entropy* prepared) { delete prepared; }

tunesmith_status tunesmith_linear_cross_entropy_launch(const tunesmith_linear_cross_entropy* prepared,
                                                       const tunesmith_linear_cross_entropy_arrays* arrays,
                                                       tunesmith_stream stream) {
  return guarded([&] {
    const LinearCrossEntropyArrays addresses = arrays_from_c(given(arrays, "arrays"));
    given(prepared, "prepared").prepared.launch(addresses, stream);
  });
}

size_t tunesmith_linear_cross_entropy_workspace_bytes(const tunesmith_linear_cross_entropy* prepared) {
  return prepared == nullptr ? 0 : prepared->prepared.workspace_bytes();
}

int64_t tunesmith_linear_cross_entropy_chunk_tokens(const tunesmith_linear_cross_entropy* prepared) {
  return prepared == nullptr ? 0 : prepared->prepared.chunk_tokens();
}
