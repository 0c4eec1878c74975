// The chunk of linear cross-entropy that stores its logits: products of a library, and the loss in place.

#include <algorithm>
#include <optional>

#include "api/dispatch/addresses.h"
#include "api/engine/config_choices.h"
#include "api/engine/parts.h"
#include "api/linear_cross_entropy/chunk.h"
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

/// A product that is summed over the chunks.
struct SummedMatmul {
  std::unique_ptr<PreparedMatmul> first;  ///< of the first chunk
  std::unique_ptr<PreparedMatmul> later;  ///< adds to c; null if beta is in device memory or there are no later chunks

  const PreparedMatmul& of_chunk(bool is_first) const { return is_first || later == nullptr ? *first : *later; }
};

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

class StoredChunk final : public LinearChunk {
 public:
  StoredChunk(Engine& engine, MatmulLibrary& matmul, const LinearCrossEntropyProblem& problem, const LinearChunks& chunks,
              std::int64_t rows, const PrepareOptions& options);
  void launch(const LinearLaunch& launch, std::int64_t first) const override;

 private:
  std::optional<Plan> backward_;  ///< with dlse: the gradient of the logits
  std::unique_ptr<PreparedMatmul> logits_, dhidden_;
  SummedMatmul dweight_, dbias_;
};

StoredChunk::StoredChunk(Engine& engine, MatmulLibrary& matmul, const LinearCrossEntropyProblem& problem,
                         const LinearChunks& chunks, std::int64_t rows, const PrepareOptions& options)
    : LinearChunk(problem, chunks, engine.prepare(forward_problem(problem, chunks, rows), options)) {
  Products products(engine, matmul, options.mode.value_or(engine.parts().options.mode), rows == chunks.chunk_tokens);
  if (problem.dlse)
    backward_ = engine.prepare(backward_problem(problem, chunks, rows), PrepareOptions{.mode = options.mode});

  const std::int64_t hidden_alignment = aligned_rows(problem, chunks, problem.hidden_alignment);
  const std::int64_t weight_alignment = used_alignment(problem.weight_alignment);
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
  logits.bias_alignment = used_alignment(problem.bias_alignment);
  logits_ = products.prepare(logits);

  if (problem.dhidden) {  // dlogits weight
    MatmulProblem product = product_of(problem, chunks);
    product.m = rows;
    product.n = product.b_row_stride = product.c_row_stride = problem.hidden_size;
    product.k = problem.vocab_size;
    product.a_row_stride = chunks.row_stride;
    product.b_alignment = weight_alignment;
    product.c_alignment = aligned_rows(problem, chunks, problem.dhidden_alignment);
    dhidden_ = products.prepare(product);
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
    product.c_alignment = used_alignment(problem.dweight_alignment);
    dweight_ = products.prepare_summed(product, chunks, rows);
  }
  if (problem.dbias) {  // a row of ones times dlogits
    MatmulProblem product = product_of(problem, chunks);
    product.out_dtype = dweight_dtype(problem);
    product.m = 1;
    product.n = product.c_row_stride = problem.vocab_size;
    product.k = product.a_row_stride = rows;
    product.b_row_stride = chunks.row_stride;
    product.c_alignment = size_of(product.out_dtype);
    dbias_ = products.prepare_summed(product, chunks, rows);
  }
}

void StoredChunk::launch(const LinearLaunch& launch, std::int64_t first) const {
  const auto& [arrays, scale, zero, one, ones, workspace, stream] = launch;
  const bool each = problem().reduction == Reduction::none;
  const auto* const hidden = part(arrays.hidden, first * problem().hidden_size, size_of(problem().dtype));
  const auto floats_at = [&](std::size_t offset) { return reinterpret_cast<float*>(workspace + offset); };
  void *const logits = workspace + chunks().logits, *const dlogits = workspace + chunks().dlogits;
  void* const scratch = workspace + chunks().matmul;

  logits_->enqueue({hidden, arrays.weight, logits, nullptr, nullptr, scratch, arrays.bias}, stream);

  const float* const z_losses = each && arrays.z_loss != nullptr ? arrays.z_loss : floats_at(chunks().z_losses);
  const void* const targets = part(arrays.targets, first, size_of(problem().target_dtype));
  const void* const weight = has_scaled_weight(problem()) ? floats_at(chunks().scaled_weight) : arrays.class_weight;
  float* const lse = arrays.lse != nullptr ? arrays.lse + first : floats_at(chunks().lse);
  float* const nll = arrays.nll != nullptr ? arrays.nll + first : floats_at(chunks().nll);
  Addresses<12> list;
  list.add(logits);
  list.add(targets);
  list.add_if(problem().class_weight, weight);
  list.add_if(has_row_dloss(problem()) && !problem().dlse, part(arrays.dloss, first, 4));
  list.add_if(scales_dlogits(problem()), scale);
  list.add((each ? arrays.loss : floats_at(chunks().losses)) + first);
  list.add(lse);
  list.add_if(problem().z_loss > 0, z_losses + first);
  list.add_if(problem().nll || problem().dlse, nll);
  list.add_if(problem().argmax, part(arrays.argmax, first, size_of(problem().target_dtype)));
  list.add_if(has_gradient(problem()) && !problem().dlse, dlogits);
  loss().launch(list.span(), stream);

  if (backward_) {
    Addresses<8> backward;
    backward.add(logits);
    backward.add(targets);
    backward.add(lse);
    backward.add(floats_at(chunks().dloss) + (has_row_dloss(problem()) ? first : 0));
    backward.add(nll);
    backward.add_if(problem().class_weight, weight);
    backward.add(floats_at(chunks().dlse) + first);
    backward.add(dlogits);
    backward_->launch(backward.span(), stream);
  }

  const bool is_first = first == 0;
  const float* const sum_before = is_first ? zero : one;
  if (problem().dhidden)
    dhidden_->enqueue({dlogits, arrays.weight, part(arrays.dhidden, first * problem().hidden_size, size_of(problem().dtype)),
                       scale, zero, scratch},
                      stream);
  if (problem().dweight)
    dweight_.of_chunk(is_first).enqueue({dlogits, hidden, arrays.dweight, scale, sum_before, scratch}, stream);
  if (problem().dbias) dbias_.of_chunk(is_first).enqueue({ones, dlogits, arrays.dbias, scale, sum_before, scratch}, stream);
}

}  // namespace

std::unique_ptr<const LinearChunk> prepare_stored_chunk(Engine& engine, MatmulLibrary& matmul,
                                                        const LinearCrossEntropyProblem& problem, const LinearChunks& chunks,
                                                        std::int64_t rows, const PrepareOptions& options) {
  return std::make_unique<const StoredChunk>(engine, matmul, problem, chunks, rows, options);
}

}  // namespace tunesmith
