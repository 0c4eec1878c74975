// Folded sources are the same kernels.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "templates/render.h"
#include "tests/support/source_compilation.h"
#include "tests/templates/golden_cases.h"

namespace tunesmith {
namespace {

class FoldNvrtc : public test::SourceCompilation {};

/// Returns the kernels of PTX without positions in the source, and with names and registers numbered as they occur.
std::string kernels_of(const std::string& ptx) {
  const std::size_t begin = ptx.find(".visible .entry");
  const std::string kernels = std::regex_replace(ptx.substr(begin, ptx.find("\n\t.section") - begin),
                                                 std::regex("\n[ \t]*(\\.loc|\\.file|//|\\$L__tmp)[^\n]*"), "");
  const std::regex name("_Z\\w+|\\$L__BB\\w+|%\\w+<?[0-9]+");
  std::map<std::string, std::size_t> numbers;
  std::string text;
  auto rest = kernels.begin();
  for (std::sregex_iterator found(kernels.begin(), kernels.end(), name), end; found != end; ++found) {
    text.append(rest, (*found)[0].first) += std::to_string(numbers.emplace(found->str(), numbers.size()).first->second);
    rest = (*found)[0].second;
  }
  return text.append(rest, kernels.end());
}

TEST_F(FoldNvrtc, TheMachineCodeIsTheSame) {
  std::size_t all = 0, folded_size = 0, branches = 0, left = 0;
  std::vector<GoldenCase> cases(golden_cases.begin(), golden_cases.end());
  cases.push_back({"prefill", "attention", "batch=2,heads=4,seq_q=512,head_dim=128,causal=bottom-right", "sm_90a", ""});
  cases.push_back(
      {"decoding", "attention", "batch=2,heads=8,kv_heads=2,seq_q=1,seq_kv=999,head_dim=64,softcap=30", "sm_90a", ""});
  cases.push_back({"options", "attention", "batch=2,heads=4,seq_q=99,head_dim=80,alibi=1,sinks=1,window_left=9,dropout=0.1",
                   "sm_80", ""});
  cases.push_back({"backward", "attention_backward", "batch=2,heads=4,seq_q=512,head_dim=64,causal=top-left", "sm_90a", ""});
  for (const GoldenCase& c : cases) {
    const auto [problem, config] = parsed(c);
    const Arch arch = parse_arch(c.arch);
    const test::Case tested{{c.op, problem->problem().fields}, config};
    const KernelSource source(*problem, config);
    const std::string text = source.render(), folded = source.render_folded(false);
    const std::string kernels = kernels_of(ptx_of({tested, text, arch}));
    EXPECT_GT(kernels.size(), 500U) << c.name;
    const std::string others = kernels_of(ptx_of({tested, folded, arch}));
    const auto first = std::ranges::mismatch(kernels, others).in1 - kernels.begin();
    EXPECT_TRUE(kernels == others) << c.name << ": " << kernels.substr(std::max<std::ptrdiff_t>(first - 200, 0), 300);
    all += text.size(), folded_size += folded.size();
    branches += test::count_of(text, "if constexpr"), left += test::count_of(folded, "if constexpr");
    const std::string kernel = source.render_folded(true);
    EXPECT_LT(kernel.size(), folded.size() / 2) << c.name;
    EXPECT_EQ(kernel.find("#line"), std::string::npos) << c.name;
  }
  std::printf("%zu of %zu characters, %zu of %zu branches are left\n", folded_size, all, left, branches);
  EXPECT_LT(4 * left, 3 * branches);  // the others depend on types and sizes of accesses
}

}  // namespace
}  // namespace tunesmith
