#include "api/c/cross_entropy.h"

#include "api/c/struct.h"

namespace tunesmith {
namespace {

DType target_dtype_from_c(int number) {
  if (number == 0 || number == TUNESMITH_I64) return DType::i64;
  if (number == TUNESMITH_I32) return DType::i32;
  throw Error(ErrorCode::invalid_argument, "target_dtype is ", number,
              "; allowed: TUNESMITH_I64 (5, or 0), TUNESMITH_I32 (4)");
}

Reduction reduction_from_c(int number) {
  switch (number) {
    case TUNESMITH_REDUCTION_MEAN: return Reduction::mean;
    case TUNESMITH_REDUCTION_SUM: return Reduction::sum;
    case TUNESMITH_REDUCTION_NONE: return Reduction::none;
    default:
      throw Error(ErrorCode::invalid_argument, "reduction is ", number,
                  "; allowed: TUNESMITH_REDUCTION_MEAN (0), TUNESMITH_REDUCTION_SUM (1), TUNESMITH_REDUCTION_NONE (2)");
  }
}

Upstream upstream_from_c(int number) {
  switch (number) {
    case TUNESMITH_UPSTREAM_BY_REDUCTION: return Upstream::none;
    case TUNESMITH_UPSTREAM_SCALAR: return Upstream::scalar;
    case TUNESMITH_UPSTREAM_ROW: return Upstream::row;
    default:
      throw Error(
          ErrorCode::invalid_argument, "dloss is ", number,
          "; allowed: TUNESMITH_UPSTREAM_BY_REDUCTION (0), TUNESMITH_UPSTREAM_SCALAR (1), TUNESMITH_UPSTREAM_ROW (2)");
  }
}

tunesmith_cross_entropy_problem known_problem(const tunesmith_cross_entropy_problem& problem) {
  constexpr std::size_t first_version = offsetof(tunesmith_cross_entropy_problem, reserved) + sizeof(int);
  return known_fields(problem, first_version, "problem", "tunesmith_cross_entropy_problem");
}

/// What both operations have.
template <typename Problem>
Problem shared_fields(const tunesmith_cross_entropy_problem& given, bool has_dlogits) {
  Problem problem = Problem::contiguous(given.rows, given.cols, float_dtype_from_c(given.dtype, "dtype"));
  if (has_dlogits) problem.out_dtype = float_dtype_from_c(given.out_dtype, "out_dtype");
  problem.target_dtype = target_dtype_from_c(given.target_dtype);
  problem.reduction = reduction_from_c(given.reduction);
  if (given.logits_row_stride != 0) problem.logits_row_stride = given.logits_row_stride;
  if (given.dlogits_row_stride != 0) problem.dlogits_row_stride = given.dlogits_row_stride;
  if (given.has_ignore_index != 0) problem.ignore_index = given.ignore_index;
  problem.label_smoothing = given.label_smoothing;
  problem.z_loss = given.z_loss;
  if (given.scale != 0) problem.scale = given.scale;
  problem.softcap = given.softcap;
  return problem;
}

}  // namespace

DType float_dtype_from_c(int number, const char* argument) {
  if (number < TUNESMITH_F32 || number > TUNESMITH_BF16)
    throw Error(ErrorCode::invalid_argument, argument, " is ", number,
                "; allowed: TUNESMITH_F32 (0), TUNESMITH_F16 (1), TUNESMITH_BF16 (2)");
  return static_cast<DType>(number);
}

CrossEntropyCall cross_entropy_from_c(const tunesmith_cross_entropy_arrays& arrays,
                                      const tunesmith_cross_entropy_problem& problem) {
  constexpr std::size_t first_version = offsetof(tunesmith_cross_entropy_arrays, dlogits) + sizeof(void*);
  const auto addresses = known_fields(arrays, first_version, "arrays", "tunesmith_cross_entropy_arrays");
  const tunesmith_cross_entropy_problem given = known_problem(problem);
  if (given.vocab_start != 0 || given.vocab_size != 0)
    throw Error(ErrorCode::invalid_argument, "vocab_start is ", given.vocab_start, " and vocab_size is ", given.vocab_size,
                ", but the loss takes all classes; expected 0 (cross_entropy_shard takes some of them)");
  CrossEntropyCall call;
  call.arrays = {.logits = addresses.logits,
                 .targets = addresses.targets,
                 .weight = addresses.weight,
                 .dloss = addresses.dloss,
                 .loss = addresses.loss,
                 .lse = addresses.lse,
                 .z_loss = addresses.z_loss,
                 .nll = addresses.nll,
                 .predicted = addresses.predicted,
                 .correct = addresses.correct,
                 .bad_targets = addresses.bad_targets,
                 .dlogits = addresses.dlogits};
  call.problem = shared_fields<CrossEntropyProblem>(given, addresses.dlogits != nullptr);
  if (addresses.dloss != nullptr) call.problem.dloss = upstream_from_c(given.dloss);
  call.problem.check_targets = given.check_targets != 0;
  return call;
}

CrossEntropyBackwardCall cross_entropy_backward_from_c(const tunesmith_cross_entropy_backward_arrays& arrays,
                                                       const tunesmith_cross_entropy_problem& problem) {
  constexpr std::size_t first_version = offsetof(tunesmith_cross_entropy_backward_arrays, dlogits) + sizeof(void*);
  const auto addresses = known_fields(arrays, first_version, "arrays", "tunesmith_cross_entropy_backward_arrays");
  const tunesmith_cross_entropy_problem given = known_problem(problem);
  if (given.check_targets != 0)
    throw Error(ErrorCode::invalid_argument, "check_targets is ", given.check_targets,
                "; expected 0: the loss checks targets, its gradient does not");
  CrossEntropyBackwardCall call;
  call.arrays = {.logits = addresses.logits,
                 .targets = addresses.targets,
                 .lse = addresses.lse,
                 .dloss = addresses.dloss,
                 .nll = addresses.nll,
                 .weight = addresses.weight,
                 .dlogits = addresses.dlogits};
  call.problem = shared_fields<CrossEntropyBackwardProblem>(given, true);
  call.problem.vocab_start = given.vocab_start;
  if (given.vocab_size != 0) call.problem.vocab_size = given.vocab_size;
  if (const Upstream dloss = upstream_from_c(given.dloss); dloss != Upstream::none) call.problem.dloss = dloss;
  return call;
}

}  // namespace tunesmith
