#include "api/linear_cross_entropy/chunks.h"

#include <algorithm>

#include "tunesmith/error.h"

namespace tunesmith {
namespace {

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

/// Splits the tokens into the smallest number of chunks, of about equal size, because every chunk reads weight and dweight.
/// With many tokens, uses sizes that are fast for matrix products (on an H200 with a vocabulary of 128256, chunks of 2816
/// tokens take 7% longer than chunks of 2048 or 3072 for the same number of tokens).
std::int64_t even_chunk(std::int64_t tokens, std::int64_t most) {
  if (tokens <= most) return tokens;
  const std::int64_t chunks = (tokens + most - 1) / most;
  const std::int64_t even = (tokens + chunks - 1) / chunks;
  for (const std::int64_t tile : {1024, 256, 8}) {
    const std::int64_t tiled = rounded_up(even, tile);
    const std::int64_t last = tokens % tiled;
    if (tiled <= most && (last == 0 || 2 * last >= tiled)) return tiled;
  }
  return even;
}

}  // namespace

bool has_gradient(const LinearCrossEntropyProblem& problem) noexcept {
  return problem.dhidden || problem.dweight || problem.dbias;
}

bool has_separate_dlogits(const LinearCrossEntropyProblem& problem) noexcept {
  return has_gradient(problem) && problem.f32_logits && problem.dtype != DType::f32;
}

bool has_row_dloss(const LinearCrossEntropyProblem& problem) noexcept {
  return problem.dloss && problem.reduction == Reduction::none;
}

bool has_scaled_weight(const LinearCrossEntropyProblem& problem) noexcept {
  return problem.reduction == Reduction::mean && problem.class_weight && problem.z_loss > 0;
}

bool scales_dlogits(const LinearCrossEntropyProblem& problem) noexcept {
  const bool has_factor = problem.reduction == Reduction::mean || (problem.reduction == Reduction::sum && problem.dloss);
  return has_gradient(problem) && has_factor && !problem.dlse && problem.dtype != DType::f16;
}

std::int64_t used_alignment(std::int64_t alignment) noexcept { return std::min<std::int64_t>(alignment, 16); }

std::int64_t aligned_rows(const LinearCrossEntropyProblem& problem, const LinearChunks& chunks,
                          std::int64_t of_matrix) noexcept {
  std::int64_t alignment = used_alignment(of_matrix);
  const std::int64_t bytes = chunks.chunk_tokens * problem.hidden_size * size_of(problem.dtype);
  while (chunks.chunks > 1 && bytes % alignment != 0) alignment /= 2;
  return alignment;
}

LinearChunks divide(const LinearCrossEntropyProblem& problem, std::size_t matmul_workspace_bytes) {
  constexpr std::int64_t line = 256;
  const bool separate = has_separate_dlogits(problem);
  LinearChunks chunks;
  chunks.matmul_bytes = std::min(matmul_workspace_bytes, static_cast<std::size_t>(problem.memory_bytes) / 16 / line * line);
  chunks.row_stride = rounded_up(problem.vocab_size, 64);
  const bool stores_logits = !problem.fused || has_gradient(problem);
  const std::int64_t logits_row =
      stores_logits ? chunks.row_stride * size_of(problem.f32_logits ? DType::f32 : problem.dtype) : 0;
  const std::int64_t dlogits_row = separate ? chunks.row_stride * size_of(problem.dtype) : 0;
  const bool scales_hidden = problem.fused && has_gradient(problem) && !problem.dlse;
  const std::int64_t hidden_row = scales_hidden ? problem.hidden_size * size_of(problem.dtype) + 4 : 0;
  // In the workspace of the loss's plan: a sum and a maximum for each tile of logits.
  const std::int64_t partials_row = problem.fused ? 8 * ((problem.vocab_size + 255) / 256) : 0;

  const bool reduced = problem.reduction != Reduction::none;
  const std::int64_t losses = reduced ? rounded_up(problem.tokens * 4, line) : 0;
  const std::int64_t z_losses = problem.z_loss > 0 ? rounded_up(problem.tokens * 4, line) : 0;
  const std::int64_t weights = has_scaled_weight(problem) ? rounded_up(problem.vocab_size * 4, line) : 0;
  const bool divides_upstream = problem.dlse && !problem.fused;
  const std::int64_t dlse = divides_upstream ? rounded_up(problem.tokens * 4, line) : 0;
  const std::int64_t dloss = !divides_upstream ? 0 : has_row_dloss(problem) ? dlse : line;
  const std::int64_t fixed =
      3 * line + weights + losses + z_losses + dlse + dloss + static_cast<std::int64_t>(chunks.matmul_bytes);
  const auto bytes_of = [&](std::int64_t tokens) {
    return fixed + (problem.dlse ? 2 : 1) * rounded_up(tokens * 4, line) + rounded_up(tokens * logits_row, line) +
           tokens * (dlogits_row + hidden_row + partials_row) + (scales_hidden ? 2 * line : 0);
  };

  if (problem.chunk_tokens > 0) {
    chunks.chunk_tokens = std::min(problem.chunk_tokens, std::max<std::int64_t>(problem.tokens, 1));
  } else {
    if (bytes_of(1) > problem.memory_bytes)
      throw Error(ErrorCode::invalid_argument, "memory_bytes is ", problem.memory_bytes, "; allowed: at least ", bytes_of(1),
                  ", the workspace of one token");
    const std::int64_t per_token = (problem.dlse ? 8 : 4) + logits_row + dlogits_row + hidden_row + partials_row;
    const std::int64_t most = std::max<std::int64_t>((problem.memory_bytes - fixed - 5 * line) / per_token, 1);
    chunks.chunk_tokens = even_chunk(std::max<std::int64_t>(problem.tokens, 1), most);
  }
  chunks.chunks = (problem.tokens + chunks.chunk_tokens - 1) / chunks.chunk_tokens;
  chunks.tail_tokens = problem.tokens % chunks.chunk_tokens;

  std::int64_t at = 0;
  const auto place = [&](std::int64_t bytes) {
    const std::int64_t offset = at;
    at = rounded_up(at + bytes, line);
    return static_cast<std::size_t>(offset);
  };
  chunks.divisor = place(4);
  chunks.gradient_scale = place(4);
  chunks.factor = place(4);
  chunks.scaled_weight = place(weights);
  chunks.losses = place(losses);
  chunks.z_losses = place(z_losses);
  chunks.dloss = place(dloss);
  chunks.dlse = place(dlse);
  chunks.lse = place(chunks.chunk_tokens * 4);
  chunks.nll = problem.dlse ? place(chunks.chunk_tokens * 4) : 0;
  if (scales_hidden) {
    chunks.row_factors = place(chunks.chunk_tokens * 4);
    chunks.scaled_hidden = place(chunks.chunk_tokens * problem.hidden_size * size_of(problem.dtype));
  }
  chunks.matmul = place(static_cast<std::int64_t>(chunks.matmul_bytes));
  chunks.logits = place(chunks.chunk_tokens * logits_row);
  chunks.dlogits = separate ? place(chunks.chunk_tokens * dlogits_row) : chunks.logits;
  chunks.bytes = static_cast<std::size_t>(at);
  return chunks;
}

}  // namespace tunesmith
