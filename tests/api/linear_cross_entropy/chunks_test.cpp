// Chunks of linear cross-entropy: every token is in one chunk, memory is bounded, and arrays in the workspace do not
// overlap.

#include "api/linear_cross_entropy/chunks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "tunesmith/error.h"

namespace tunesmith {
namespace {

constexpr std::size_t matmul_bytes = std::size_t{64} << 20;

LinearCrossEntropyProblem of(std::int64_t tokens, std::int64_t vocab_size) {
  LinearCrossEntropyProblem problem;
  problem.tokens = tokens;
  problem.hidden_size = 64;
  problem.vocab_size = vocab_size;
  problem.dhidden = problem.dweight = true;
  return problem;
}

TEST(LinearChunks, EveryTokenIsInOneChunk) {
  for (const std::int64_t tokens : {0, 1, 5, 1000, 8192, 8193, 100003})
    for (const std::int64_t chunk_tokens : {0, 1, 7, 4096, 200000}) {
      LinearCrossEntropyProblem problem = of(tokens, 32000);
      problem.chunk_tokens = chunk_tokens;
      const LinearChunks chunks = divide(problem, matmul_bytes);
      ASSERT_GE(chunks.chunk_tokens, 1);
      const std::int64_t whole = chunks.tail_tokens > 0 ? chunks.chunks - 1 : chunks.chunks;
      EXPECT_EQ(whole * chunks.chunk_tokens + chunks.tail_tokens, tokens) << tokens << " by " << chunk_tokens;
      EXPECT_LT(chunks.tail_tokens, chunks.chunk_tokens);
    }
}

TEST(LinearChunks, MemoryIsBoundedAndUsed) {
  for (const std::int64_t vocab_size : {1000, 50257, 128256})
    for (const std::int64_t tokens : {100, 8192, 50000})
      for (const std::int64_t memory_bytes : {std::int64_t{100} << 20, std::int64_t{1} << 30})
        for (const bool f32_logits : {false, true}) {
          LinearCrossEntropyProblem problem = of(tokens, vocab_size);
          problem.memory_bytes = memory_bytes;
          problem.f32_logits = f32_logits;
          problem.z_loss = 1e-4;
          problem.dlse = problem.dloss = f32_logits;
          problem.reduction = f32_logits ? Reduction::none : Reduction::mean;
          const LinearChunks chunks = divide(problem, matmul_bytes);
          EXPECT_LE(chunks.bytes, static_cast<std::size_t>(memory_bytes));
          if (chunks.chunks > 1) {
            EXPECT_GT(chunks.bytes, static_cast<std::size_t>(memory_bytes) / 3) << tokens << " " << vocab_size;
          }
        }
}

TEST(LinearChunks, LargeVocabulariesHaveFewEvenChunksByDefault) {
  for (const auto& [tokens, vocab_size, expected] : {std::tuple(8192, 128256, 2), {16384, 131072, 4}, {4096, 128256, 1}}) {
    const LinearChunks chunks = divide(of(tokens, vocab_size), matmul_bytes);
    EXPECT_LE(chunks.bytes, std::size_t{1126} << 20);
    EXPECT_EQ(chunks.chunks, expected) << vocab_size;
    EXPECT_EQ(chunks.chunk_tokens, 4096);
    EXPECT_EQ(chunks.matmul_bytes, matmul_bytes);
  }
  const LinearChunks chunks = divide(of(8192, 151936), matmul_bytes);
  EXPECT_EQ(chunks.chunks, 3);
  EXPECT_GE(chunks.tail_tokens, 2048);
}

TEST(LinearChunks, LittleMemoryIsMostlyForLogits) {
  LinearCrossEntropyProblem problem = of(8192, 128256);
  problem.memory_bytes = std::int64_t{64} << 20;
  const LinearChunks chunks = divide(problem, matmul_bytes);
  EXPECT_EQ(chunks.matmul_bytes, std::size_t{4} << 20);
  EXPECT_EQ(chunks.matmul_bytes % 256, 0U);
  EXPECT_LE(chunks.bytes, std::size_t{64} << 20);
  EXPECT_EQ(chunks.chunk_tokens, 241);
}

TEST(LinearChunks, TheGradientOfTheLogitsHoldsTheFactorUnlessItIsF16) {
  LinearCrossEntropyProblem problem = of(100, 1000);
  EXPECT_TRUE(scales_dlogits(problem));
  problem.dtype = DType::f16;
  EXPECT_FALSE(scales_dlogits(problem));
  problem.dtype = DType::f32;
  problem.reduction = Reduction::sum;
  EXPECT_FALSE(scales_dlogits(problem));
  problem.dloss = true;
  EXPECT_TRUE(scales_dlogits(problem));
  problem.reduction = Reduction::none;
  EXPECT_FALSE(scales_dlogits(problem));
  problem.reduction = Reduction::mean;
  problem.dlse = true;
  EXPECT_FALSE(scales_dlogits(problem));
  problem.dlse = problem.dhidden = problem.dweight = false;
  EXPECT_FALSE(scales_dlogits(problem));
}

TEST(LinearChunks, NoSmallLastChunk) {
  LinearCrossEntropyProblem problem = of(2100, 128256);
  problem.memory_bytes = (std::int64_t{1} << 20) + std::int64_t{2048} * 128256 * 2 * 16 / 15;  // 2048 tokens fit
  const LinearChunks chunks = divide(problem, matmul_bytes);
  EXPECT_EQ(chunks.chunks, 2);
  EXPECT_GE(chunks.tail_tokens, 640);
}

TEST(LinearChunks, ArraysInTheWorkspaceDoNotOverlap) {
  for (const bool f32_logits : {false, true}) {
    LinearCrossEntropyProblem problem = of(3000, 1001);
    problem.f32_logits = f32_logits;
    problem.z_loss = 1e-4;
    problem.chunk_tokens = 37;
    const LinearChunks chunks = divide(problem, matmul_bytes);
    EXPECT_EQ(chunks.row_stride, 1024);
    const std::size_t logits = 37 * 1024 * (f32_logits ? 4u : 2u);
    std::vector<std::pair<std::size_t, std::size_t>> parts{
        {chunks.divisor, 4},  {chunks.gradient_scale, 4},    {chunks.losses, 12000}, {chunks.z_losses, 12000},
        {chunks.lse, 37 * 4}, {chunks.matmul, matmul_bytes}, {chunks.logits, logits}};
    EXPECT_EQ(chunks.dlogits == chunks.logits, !f32_logits);
    if (f32_logits) parts.emplace_back(chunks.dlogits, 37 * 1024 * 2);
    std::ranges::sort(parts);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(parts[i].first % 256, 0u);
      EXPECT_LE(parts[i].first + parts[i].second, i + 1 < parts.size() ? parts[i + 1].first : chunks.bytes);
    }
  }
}

TEST(LinearChunks, ScaledWeightsHavePlaceWhereTheMeanHasTwoDivisors) {
  LinearCrossEntropyProblem problem = of(100, 1001);
  problem.z_loss = 1e-4;
  const std::size_t without = divide(problem, 0).bytes;
  problem.class_weight = true;
  const LinearChunks chunks = divide(problem, 0);
  EXPECT_EQ(chunks.bytes, without + 4096);
  EXPECT_EQ(chunks.losses - chunks.scaled_weight, 4096U);
}

TEST(LinearChunks, ErrorNamesTooLittleMemory) {
  LinearCrossEntropyProblem problem = of(10, 128256);
  problem.memory_bytes = 1000;
  try {
    divide(problem, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("memory_bytes is 1000; "), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tunesmith
