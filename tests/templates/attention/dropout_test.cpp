// The dropout mask of attention: the generator, the share of dropped pairs, and what keys and sources contain.

#include "templates/attention/reference/dropout.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "templates/render.h"
#include "tests/support/cases.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using attention::DropoutMask;
using attention::Settings;
using Words = std::array<std::uint32_t, 4>;

// Known answers of Random123's philox4x32 with 10 rounds.
TEST(Dropout, GeneratorHasTheKnownAnswers) {
  EXPECT_EQ(attention::philox(0, {0, 0, 0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(attention::philox(~std::uint64_t{0}, {~0U, ~0U, ~0U, ~0U}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(attention::philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

struct Counts {
  double all = 0, dropped = 0, neighbours = 0;  ///< neighbours: both a pair and the next are dropped
};
Counts counts_of(const Settings& settings, bool next_is_key) {
  const DropoutMask mask(settings, {});
  Counts counts;
  for (std::int64_t head = 0; head < 4; ++head)
    for (std::int64_t query = 0; query < 256; ++query)
      for (std::int64_t key = 0; key < 256; ++key) {
        const bool dropped = mask.factor(1, head, query, key) == 0;
        const bool next = mask.factor(1, head, query + (next_is_key ? 0 : 1), key + (next_is_key ? 1 : 0)) == 0;
        ++counts.all;
        counts.dropped += dropped ? 1 : 0;
        counts.neighbours += dropped && next ? 1 : 0;
      }
  return counts;
}

// Counts of independent events: six standard deviations, sqrt(n p (1 - p)), are exceeded once in 5e8 times. Pairs of
// neighbours overlap, which at most triples the variance. Probabilities are multiples of 2^-16.
TEST(Dropout, DropsTheShareOfPairsIndependently) {
  for (const double wanted : {0.01, 0.1, 0.5, 0.9})
    for (const bool next_is_key : {false, true}) {
      Settings settings;
      settings.dropout = wanted;
      settings.dropout_seed = 17;
      const double probability = std::round(wanted * 65536) / 65536;
      EXPECT_DOUBLE_EQ(attention::dropout_factor(wanted), 1 / (1 - probability));
      const Counts counts = counts_of(settings, next_is_key);
      const auto bound = [&](double p) { return 6 * std::sqrt(counts.all * p * (1 - p)); };
      EXPECT_LT(std::fabs(counts.dropped - counts.all * probability), bound(probability)) << probability;
      const double both = probability * probability;
      EXPECT_LT(std::fabs(counts.neighbours - counts.all * both), std::sqrt(3.0) * bound(both)) << probability;
    }
}

TEST(Dropout, MaskDependsOnSeedOffsetBatchHeadAndPositions) {
  const auto differing = [](const DropoutMask& a, const DropoutMask& b, std::int64_t batch, std::int64_t head,
                            std::int64_t query, std::int64_t key) {
    int count = 0;
    for (std::int64_t q = 0; q < 64; ++q)
      for (std::int64_t k = 0; k < 64; ++k)
        count += a.factor(0, 0, q, k) != b.factor(batch, head, q + query, k + key) ? 1 : 0;
    return count;
  };
  Settings settings;
  settings.dropout = 0.5;
  const DropoutMask mask(settings, {});
  EXPECT_EQ(differing(mask, mask, 0, 0, 0, 0), 0);
  // Half of 4096 independent pairs differ, 32 is a standard deviation.
  const auto is_half = [](int count) { return std::abs(count - 2048) < 200; };
  EXPECT_TRUE(is_half(differing(mask, mask, 1, 0, 0, 0)));
  EXPECT_TRUE(is_half(differing(mask, mask, 0, 1, 0, 0)));
  for (const std::int64_t distance : {1, 8, 16, 64}) {
    EXPECT_TRUE(is_half(differing(mask, mask, 0, 0, distance, 0))) << distance;
    EXPECT_TRUE(is_half(differing(mask, mask, 0, 0, 0, distance))) << distance;
  }
  Settings other = settings;
  other.dropout_seed = 1;
  EXPECT_TRUE(is_half(differing(mask, DropoutMask(other, {}), 0, 0, 0, 0)));
  other = settings;
  other.dropout_offset = 1;
  EXPECT_TRUE(is_half(differing(mask, DropoutMask(other, {}), 0, 0, 0, 0)));
}

// Seed, offset and probability are parameters of one kernel; a probability of 0 is no dropout at all.
TEST(Dropout, OnlyItsPresenceIsCompiledIn) {
  const DeviceInfo device = generic_device(parse_arch("sm_80"));
  for (const char* op : {"attention", "attention_backward"}) {
    const std::string fields = "seq_q=300,heads=4,head_dim=64";
    const auto parsed = [&](const std::string& more) { return find_op(op).parse(test::normalized(op, fields + more)); };
    const auto source = [&](const ParsedProblemPtr& problem) { return render(*problem, problem->default_config(device)); };
    const ParsedProblemPtr none = parsed(""), some = parsed(",dropout=0.1");
    EXPECT_EQ(source(parsed(",dropout=0,dropout_seed=3")), source(none));
    EXPECT_EQ(parsed(",dropout=0")->problem(), none->problem());
    EXPECT_EQ(parsed(",dropout=0,dropout_seed=3")->key().problem_class, none->key().problem_class);
    EXPECT_NE(source(some), source(none));
    EXPECT_NE(some->key().problem_class, none->key().problem_class);
    for (const char* more :
         {",dropout=0.7", ",dropout=0.1,dropout_seed=9", ",dropout=0.1,dropout_offset=9", ",dropout=0.1,rng_state=1"}) {
      EXPECT_EQ(source(parsed(more)), source(some)) << more;
      EXPECT_EQ(parsed(more)->key().problem_class, some->key().problem_class) << more;
    }
    for (const char* wrong : {",dropout=1", ",dropout=-0.1", ",rng_state=1"})
      EXPECT_THROW((void)parsed(wrong), Error) << wrong;
  }
}

}  // namespace
}  // namespace tunesmith
