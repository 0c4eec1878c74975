// The chunk of linear cross-entropy that stores no logits: templates/linear_loss, and two products of its results.

#include <optional>

#include "api/dispatch/addresses.h"
#include "api/linear_cross_entropy/chunk.h"
#include "api/linear_cross_entropy/description.h"
#include "templates/linear_loss/backward_op.h"
#include "templates/linear_loss/op.h"
#include "templates/matmul/op.h"

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

/// The fields that the loss and its gradient share.
template <typename ChunkProblem>
ChunkProblem of_chunk(const LinearCrossEntropyProblem& problem, const LinearChunks& chunks, std::int64_t rows) {
  ChunkProblem chunk;
  chunk.tokens = rows;
  chunk.hidden_size = problem.hidden_size;
  chunk.vocab_size = problem.vocab_size;
  chunk.dtype = problem.dtype;
  chunk.target_dtype = problem.target_dtype;
  chunk.ignore_index = problem.ignore_index;
  chunk.z_loss = problem.z_loss;
  chunk.scale = problem.scale;
  chunk.softcap = problem.softcap;
  chunk.hidden_alignment = aligned_rows(problem, chunks, problem.hidden_alignment);
  chunk.weight_alignment = used_alignment(problem.weight_alignment);
  return chunk;
}

LinearLossProblem loss_problem(const LinearCrossEntropyProblem& problem, const LinearChunks& chunks, std::int64_t rows) {
  auto loss = of_chunk<LinearLossProblem>(problem, chunks, rows);
  loss.gradient = has_gradient(problem) && !problem.dlse;
  if (loss.gradient) loss.dloss = upstream_of(problem);
  loss.nll = problem.nll;
  loss.exponentials_row_stride = chunks.row_stride;
  return loss;
}

LinearLossBackwardProblem gradient_problem(const LinearCrossEntropyProblem& problem, const LinearChunks& chunks,
                                           std::int64_t rows) {
  auto backward = of_chunk<LinearLossBackwardProblem>(problem, chunks, rows);
  backward.dloss = upstream_of(problem);
  backward.dlse = true;
  backward.dlogits_row_stride = chunks.row_stride;
  return backward;
}

class FusedChunk final : public LinearChunk {
 public:
  FusedChunk(Engine& engine, const LinearCrossEntropyProblem& problem, const LinearChunks& chunks, std::int64_t rows,
             const PrepareOptions& options)
      : LinearChunk(problem, chunks, engine.prepare(loss_problem(problem, chunks, rows), options)) {
    const PrepareOptions mode{.mode = options.mode};
    if (problem.dlse) backward_ = engine.prepare(gradient_problem(problem, chunks, rows), mode);
    if (problem.dhidden) {  // row_factors (exponentials weight), or dlogits weight
      ProductProblem product;
      product.dtype = problem.dtype;
      product.m = rows;
      product.n = problem.hidden_size;
      product.k = problem.vocab_size;
      product.a_row_stride = chunks.row_stride;
      product.row_factors = !problem.dlse;
      product.b_alignment = used_alignment(problem.weight_alignment);
      product.c_alignment = aligned_rows(problem, chunks, problem.dhidden_alignment);
      dhidden_ = engine.prepare(product, mode);
    }
    if (problem.dweight) {  // exponentials^T scaled_hidden, or dlogits^T hidden
      ProductProblem product;
      product.dtype = problem.dtype;
      product.out_dtype = dweight_dtype(problem);
      product.m = problem.vocab_size;
      product.n = problem.hidden_size;
      product.k = rows;
      product.transpose_a = true;
      product.a_row_stride = chunks.row_stride;
      if (problem.dlse) product.b_alignment = aligned_rows(problem, chunks, problem.hidden_alignment);
      product.c_alignment = used_alignment(problem.dweight_alignment);
      const bool is_tail = chunks.chunks > 1 && rows == chunks.tail_tokens;
      if (!is_tail) dweight_ = engine.prepare(product, mode);
      product.accumulate = true;
      if (chunks.chunks > 1) later_dweight_ = engine.prepare(product, mode);
    }
  }

  void launch(const LinearLaunch& launch, std::int64_t first) const override {
    const LinearCrossEntropyArrays& arrays = launch.arrays;
    const bool each = problem().reduction == Reduction::none, at_once = has_gradient(problem()) && !problem().dlse;
    const auto at = [&](std::size_t offset) -> void* { return launch.workspace + offset; };
    const auto row_of = [&](std::size_t offset) { return static_cast<float*>(at(offset)) + first; };
    const auto rows_of = [&](auto* matrix) { return part(matrix, first * problem().hidden_size, size_of(problem().dtype)); };
    const void *const hidden = rows_of(arrays.hidden), *const targets =
                                                           part(arrays.targets, first, size_of(problem().target_dtype));
    const Upstream upstream = upstream_of(problem());
    const float* const dloss = upstream == Upstream::row ? arrays.dloss + first : launch.scale;
    void* const lse = arrays.lse != nullptr ? arrays.lse + first : at(chunks().lse);
    void* const logits = at(chunks().logits);  // their exponentials, or their gradient

    Addresses<11> list(hidden, arrays.weight, targets);
    list.add_if(at_once && upstream != Upstream::none, dloss);
    list.add(each ? arrays.loss + first : row_of(chunks().losses));
    list.add(lse);
    list.add_if(problem().z_loss > 0, each && arrays.z_loss != nullptr ? arrays.z_loss + first : row_of(chunks().z_losses));
    list.add_if(problem().nll, part(arrays.nll, first, 4));
    list.add_if(at_once, at(chunks().row_factors));
    list.add_if(at_once, at(chunks().scaled_hidden));
    list.add_if(at_once, logits);
    loss().launch(list.span(), launch.stream);

    if (backward_) {
      Addresses<7> backward(hidden, arrays.weight, targets, lse);
      backward.add_if(upstream != Upstream::none, dloss);
      backward.add(arrays.dlse + first);
      backward.add(logits);
      backward_->launch(backward.span(), launch.stream);
    }
    if (dhidden_) {
      Addresses<4> product(logits, arrays.weight);
      product.add_if(at_once, at(chunks().row_factors));
      product.add(rows_of(arrays.dhidden));
      dhidden_->launch(product.span(), launch.stream);
    }
    if (problem().dweight)
      (first == 0 ? dweight_ : later_dweight_)
          ->launch(Addresses<3>(logits, at_once ? at(chunks().scaled_hidden) : hidden, arrays.dweight).span(),
                   launch.stream);
  }

 private:
  std::optional<Plan> backward_;                           ///< with dlse: the gradient of the logits
  std::optional<Plan> dhidden_, dweight_, later_dweight_;  ///< later: adds to the sum of the chunks before
};

}  // namespace

std::unique_ptr<const LinearChunk> prepare_fused_chunk(Engine& engine, const LinearCrossEntropyProblem& problem,
                                                       const LinearChunks& chunks, std::int64_t rows,
                                                       const PrepareOptions& options) {
  return std::make_unique<const FusedChunk>(engine, problem, chunks, rows, options);
}

}  // namespace tunesmith
