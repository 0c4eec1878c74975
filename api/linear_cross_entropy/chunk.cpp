#include "api/linear_cross_entropy/chunk.h"

#include <algorithm>

#include "api/engine/config_choices.h"
#include "api/engine/parts.h"
#include "api/linear_cross_entropy/description.h"
#include "tuner/products.h"
#include "tunesmith/cross_entropy.h"

namespace tunesmith {
namespace {

/// The options of the loss, which the forward and the backward operation share.
template <typename ChunkProblem>
ChunkProblem with_options(const LinearCrossEntropyProblem& problem, const LinearChunks& chunks, std::int64_t rows) {
  ChunkProblem chunk;
  chunk.rows = rows;
  chunk.cols = problem.vocab_size;
  chunk.dtype = logits_dtype(problem);
  chunk.target_dtype = problem.target_dtype;
  chunk.logits_row_stride = chunks.row_stride;
  chunk.ignore_index = problem.ignore_index;
  chunk.label_smoothing = problem.label_smoothing;
  chunk.z_loss = problem.z_loss;
  chunk.scale = problem.scale;
  chunk.softcap = problem.softcap;
  chunk.reduction = Reduction::none;
  chunk.weight = problem.class_weight;
  return chunk;
}

CrossEntropyProblem forward_problem(const LinearCrossEntropyProblem& problem, const LinearChunks& chunks,
                                    std::int64_t rows) {
  auto chunk = with_options<CrossEntropyProblem>(problem, chunks, rows);
  chunk.nll = problem.nll || problem.dlse;
  chunk.argmax = problem.argmax;
  if (!has_gradient(problem) || problem.dlse) return chunk;
  chunk.gradient = has_separate_dlogits(problem) ? Gradient::separate : Gradient::in_place;
  chunk.out_dtype = problem.dtype;
  chunk.dlogits_row_stride = chunks.row_stride;
  if (has_row_dloss(problem)) chunk.dloss = Upstream::row;
  if (scales_dlogits(problem)) chunk.dloss = Upstream::scalar;
  return chunk;
}

CrossEntropyBackwardProblem backward_problem(const LinearCrossEntropyProblem& problem, const LinearChunks& chunks,
                                             std::int64_t rows) {
  auto chunk = with_options<CrossEntropyBackwardProblem>(problem, chunks, rows);
  chunk.in_place = !has_separate_dlogits(problem);
  chunk.out_dtype = problem.dtype;
  chunk.dlogits_row_stride = chunks.row_stride;
  chunk.dloss = has_row_dloss(problem) ? Upstream::row : Upstream::scalar;
  chunk.nll = chunk.dlse = true;
  return chunk;
}

/// Returns the alignment that a product uses: no access is wider than 16 bytes.
std::int64_t used(std::int64_t alignment) { return std::min<std::int64_t>(alignment, 16); }

/// Returns the alignment of a chunk's rows: a chunk starts where the previous one ends.
std::int64_t aligned_rows(const LinearCrossEntropyProblem& problem, const LinearChunks& chunks, std::int64_t of_matrix) {
  std::int64_t alignment = used(of_matrix);
  const std::int64_t bytes = chunks.chunk_tokens * problem.hidden_size * size_of(problem.dtype);
  while (chunks.chunks > 1 && bytes % alignment != 0) alignment /= 2;
  return alignment;
}

/// Prepares the matrix products of a chunk.
class Products {
 public:
  Products(Engine& engine, MatmulLibrary& library, Mode mode, bool may_measure)
      : parts_(engine.parts()),
        library_(library),
        run_(may_measure && tunes(mode) ? parts_.choices->try_start_tuning() : std::nullopt),
        options_{.reads_records = mode != Mode::off, .measure_s = run_ ? parts_.options.tune_budget_s : 0} {}

  std::unique_ptr<PreparedMatmul> prepare(const MatmulProblem& problem) {
    return choose_product(library_, problem, *parts_.device, *parts_.cache, options_);
  }

  /// Without factors, beta is in device memory, and one product serves all chunks.
  SummedMatmul prepare_summed(MatmulProblem problem, const LinearChunks& chunks, std::int64_t rows) {
    SummedMatmul summed;
    const bool is_tail = chunks.chunks > 1 && rows == chunks.tail_tokens;
    if (!problem.factors || !is_tail) summed.first = prepare(problem);
    if (problem.factors && chunks.chunks > 1) {
      problem.factors->beta = 1;
      summed.later = prepare(problem);
    }
    return summed;
  }

 private:
  bool tunes(Mode mode) const {
    return mode == Mode::tune && parts_.device->info().kind == DeviceInfo::Kind::cuda && !parts_.cache->is_pinned();
  }

  Engine::Parts& parts_;
  MatmulLibrary& library_;
  const std::optional<TuneShare::Run> run_;  ///< counts the time of this object as tuning
  const ProductOptions options_;
};

/// Returns a problem with the workspace of all products, and factors unless the host does not know them.
MatmulProblem product_of(const LinearCrossEntropyProblem& problem, const LinearChunks& chunks) {
  MatmulProblem product;
  product.dtype = product.out_dtype = problem.dtype;
  product.workspace_bytes = chunks.matmul_bytes;
  const bool has_factor =
      problem.reduction == Reduction::mean || problem.dlse || (problem.reduction == Reduction::sum && problem.dloss);
  if (!has_factor || scales_dlogits(problem)) product.factors.emplace();
  return product;
}

}  // namespace

LinearChunk prepare_chunk(Engine& engine, MatmulLibrary& matmul, const LinearCrossEntropyProblem& problem,
                          const LinearChunks& chunks, std::int64_t rows, const PrepareOptions& options) {
  LinearChunk chunk{engine.prepare(forward_problem(problem, chunks, rows), options), {}, {}, {}, {}, {}};
  Products products(engine, matmul, options.mode.value_or(engine.parts().options.mode), rows == chunks.chunk_tokens);
  if (problem.dlse)
    chunk.cross_entropy_backward =
        engine.prepare(backward_problem(problem, chunks, rows), PrepareOptions{.mode = options.mode});

  const std::int64_t hidden_alignment = aligned_rows(problem, chunks, problem.hidden_alignment);
  const std::int64_t weight_alignment = used(problem.weight_alignment);
  MatmulProblem logits = product_of(problem, chunks);  // hidden weight^T + bias
  logits.factors.emplace();
  logits.out_dtype = logits_dtype(problem);
  logits.m = rows;
  logits.n = problem.vocab_size;
  logits.k = logits.a_row_stride = logits.b_row_stride = problem.hidden_size;
  logits.transpose_b = true;
  logits.c_row_stride = chunks.row_stride;
  logits.a_alignment = hidden_alignment;
  logits.b_alignment = weight_alignment;
  logits.bias = problem.bias;
  logits.bias_alignment = used(problem.bias_alignment);
  chunk.logits = products.prepare(logits);

  if (problem.dhidden) {  // dlogits weight
    MatmulProblem product = product_of(problem, chunks);
    product.m = rows;
    product.n = product.b_row_stride = product.c_row_stride = problem.hidden_size;
    product.k = problem.vocab_size;
    product.a_row_stride = chunks.row_stride;
    product.b_alignment = weight_alignment;
    product.c_alignment = aligned_rows(problem, chunks, problem.dhidden_alignment);
    chunk.dhidden = products.prepare(product);
  }
  if (problem.dweight) {  // dlogits^T hidden
    MatmulProblem product = product_of(problem, chunks);
    product.out_dtype = dweight_dtype(problem);
    product.m = problem.vocab_size;
    product.n = product.b_row_stride = product.c_row_stride = problem.hidden_size;
    product.k = rows;
    product.transpose_a = true;
    product.a_row_stride = chunks.row_stride;
    product.b_alignment = hidden_alignment;
    product.c_alignment = used(problem.dweight_alignment);
    chunk.dweight = products.prepare_summed(product, chunks, rows);
  }
  if (problem.dbias) {  // a row of ones times dlogits
    MatmulProblem product = product_of(problem, chunks);
    product.out_dtype = dweight_dtype(problem);
    product.m = 1;
    product.n = product.c_row_stride = problem.vocab_size;
    product.k = product.a_row_stride = rows;
    product.b_row_stride = chunks.row_stride;
    product.c_alignment = size_of(product.out_dtype);
    chunk.dbias = products.prepare_summed(product, chunks, rows);
  }
  return chunk;
}

}  // namespace tunesmith
