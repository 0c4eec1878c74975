// The chunk of linear cross-entropy that stores no logits: templates/linear_loss, and two products of its results.

#include <optional>

#include "api/dispatch/addresses.h"
#include "api/linear_cross_entropy/chunk.h"
#include "api/linear_cross_entropy/description.h"
#include "templates/linear_loss/op.h"

namespace tunesmith {
namespace {

using matmul::ProductProblem;

/// Returns whether row factors include an upstream gradient, and which.
Upstream upstream_of(const LinearCrossEntropyProblem& problem) {
  if (!has_gradient(problem)) return Upstream::none;
  if (has_row_dloss(problem)) return Upstream::row;
  const bool has_factor = problem.reduction == Reduction::mean || (problem.reduction == Reduction::sum && problem.dloss);
  return has_factor ? Upstream::scalar : Upstream::none;
}

LinearLossProblem loss_problem(const LinearCrossEntropyProblem& problem, const LinearChunks& chunks, std::int64_t rows) {
  LinearLossProblem loss;
  loss.tokens = rows;
  loss.hidden_size = problem.hidden_size;
  loss.vocab_size = problem.vocab_size;
  loss.dtype = problem.dtype;
  loss.target_dtype = problem.target_dtype;
  loss.gradient = has_gradient(problem);
  loss.dloss = upstream_of(problem);
  loss.ignore_index = problem.ignore_index;
  loss.z_loss = problem.z_loss;
  loss.scale = problem.scale;
  loss.softcap = problem.softcap;
  loss.nll = problem.nll;
  loss.exponentials_row_stride = chunks.row_stride;
  loss.hidden_alignment = aligned_rows(problem, chunks, problem.hidden_alignment);
  loss.weight_alignment = used_alignment(problem.weight_alignment);
  return loss;
}

class FusedChunk final : public LinearChunk {
 public:
  FusedChunk(Engine& engine, const LinearCrossEntropyProblem& problem, const LinearChunks& chunks, std::int64_t rows,
             const PrepareOptions& options)
      : LinearChunk(problem, chunks, engine.prepare(loss_problem(problem, chunks, rows), options)) {
    const PrepareOptions mode{.mode = options.mode};
    if (problem.dhidden) {  // row_factors (exponentials weight)
      ProductProblem product;
      product.dtype = problem.dtype;
      product.m = rows;
      product.n = problem.hidden_size;
      product.k = problem.vocab_size;
      product.a_row_stride = chunks.row_stride;
      product.row_factors = true;
      product.b_alignment = used_alignment(problem.weight_alignment);
      product.c_alignment = aligned_rows(problem, chunks, problem.dhidden_alignment);
      dhidden_ = engine.prepare(product, mode);
    }
    if (problem.dweight) {  // exponentials^T scaled_hidden
      ProductProblem product;
      product.dtype = problem.dtype;
      product.out_dtype = dweight_dtype(problem);
      product.m = problem.vocab_size;
      product.n = problem.hidden_size;
      product.k = rows;
      product.transpose_a = true;
      product.a_row_stride = chunks.row_stride;
      product.c_alignment = used_alignment(problem.dweight_alignment);
      const bool is_tail = chunks.chunks > 1 && rows == chunks.tail_tokens;
      if (!is_tail) dweight_ = engine.prepare(product, mode);
      product.accumulate = true;
      if (chunks.chunks > 1) later_dweight_ = engine.prepare(product, mode);
    }
  }

  void launch(const LinearLaunch& launch, std::int64_t first) const override {
    const LinearCrossEntropyArrays& arrays = launch.arrays;
    const bool each = problem_.reduction == Reduction::none;
    const auto at = [&](std::size_t offset) { return launch.workspace + offset; };
    const auto row_of = [&](std::size_t offset) { return reinterpret_cast<float*>(at(offset)) + first; };
    void* const exponentials = at(chunks_.logits);

    Addresses<11> list;
    list.add(part(arrays.hidden, first * problem_.hidden_size, size_of(problem_.dtype)));
    list.add(arrays.weight);
    list.add(part(arrays.targets, first, size_of(problem_.target_dtype)));
    const Upstream upstream = upstream_of(problem_);
    list.add_if(upstream == Upstream::row, part(arrays.dloss, first, 4));
    list.add_if(upstream == Upstream::scalar, launch.scale);
    list.add(each ? arrays.loss + first : row_of(chunks_.losses));
    list.add(arrays.lse != nullptr ? static_cast<void*>(arrays.lse + first) : at(chunks_.lse));
    list.add_if(problem_.z_loss > 0, each && arrays.z_loss != nullptr ? arrays.z_loss + first : row_of(chunks_.z_losses));
    list.add_if(problem_.nll, part(arrays.nll, first, 4));
    list.add_if(has_gradient(problem_), at(chunks_.row_factors));
    list.add_if(has_gradient(problem_), at(chunks_.scaled_hidden));
    list.add_if(has_gradient(problem_), exponentials);
    loss_.launch(list.span(), launch.stream);

    if (dhidden_)
      dhidden_->launch(Addresses<4>(exponentials, arrays.weight, at(chunks_.row_factors),
                                    part(arrays.dhidden, first * problem_.hidden_size, size_of(problem_.dtype)))
                           .span(),
                       launch.stream);
    if (problem_.dweight)
      (first == 0 ? dweight_ : later_dweight_)
          ->launch(Addresses<3>(exponentials, at(chunks_.scaled_hidden), arrays.dweight).span(), launch.stream);
  }

 private:
  std::optional<Plan> dhidden_, dweight_, later_dweight_;  ///< later: adds to the sum of the chunks before
};

}  // namespace

std::unique_ptr<const LinearChunk> prepare_fused_chunk(Engine& engine, const LinearCrossEntropyProblem& problem,
                                                       const LinearChunks& chunks, std::int64_t rows,
                                                       const PrepareOptions& options) {
  return std::make_unique<const FusedChunk>(engine, problem, chunks, rows, options);
}

}  // namespace tunesmith
