// Every head dimension of attention's backward pass with another one of the values, in wgmma, compiled by NVRTC.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/source_compilation.h"

namespace tunesmith {
namespace {

using test::Case;

/// Pairs each of 8, 16, ... 256 with another one, so that each is both.
std::vector<std::pair<int, int>> head_dims(int step) {
  std::vector<std::pair<int, int>> pairs;
  const int count = 256 / step;
  for (int i = 0; i < count; ++i) pairs.emplace_back((i + 1) * step, (i * 7 + 3) % count * step + step);
  return pairs;
}

std::string fields_of(std::pair<int, int> dims, const char* dtype) {
  return "heads=2,kv_heads=1,seq_q=19,seq_kv=35,causal=bottom-right,head_dim=" + std::to_string(dims.first) +
         ",head_dim_v=" + std::to_string(dims.second) + ",dtype=" + dtype;
}

class AttentionBackwardHeadDimsNvrtc : public test::SourceCompilation {};

// wgmma has multiples of 16; for others Hopper takes mma.
TEST_F(AttentionBackwardHeadDimsNvrtc, InWgmma) {
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  std::vector<Source> sources;
  for (const auto& dims : head_dims(16)) {
    const Problem problem = test::normalized("attention_backward", fields_of(dims, "bf16"));
    const std::vector<Config> space = find_op("attention_backward").parse(problem)->search_space(device, Effort::full);
    const auto found = std::ranges::find(space, "wgmma", &Config::variant);
    ASSERT_NE(found, space.end()) << problem.short_text();
    sources.push_back(source_of({problem, *found}, device.arch));
  }
  compile_covering(sources);
  const Problem odd = test::normalized("attention_backward", fields_of({72, 64}, "bf16"));
  EXPECT_EQ(find_op("attention_backward").parse(odd)->default_config(device).variant(), "mma");
}

}  // namespace
}  // namespace tunesmith
