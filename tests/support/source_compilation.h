#pragma once
// Compiles generated sources with NVRTC and nvcc for any architecture.

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/engine/parts.h"
#include "tests/support/cases.h"

namespace tunesmith::test {

inline constexpr const char* archs[] = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"};

/// Counts the occurrences of `what`, including overlapping ones.
std::size_t count_of(const std::string& text, const std::string& what);

class SourceCompilation : public testing::Test {
 protected:
  struct Source {
    Case c;
    std::string text;
    Arch arch;
  };

  void SetUp() override;

  bool supports(const Arch& arch) const;
  static Source source_of(const Case& c, const Arch& arch);
  static Source source_of(std::string_view op, const std::string& fields, const std::string& config, const char* arch_name);
  std::string ptx_of(const Source& source) const;
  std::string ptx_of(std::string_view op, const std::string& fields, const std::string& config) const;

  /// Compiles the distinct sources that cover pairs of values, architectures included (covering.h), on two threads. Checks
  /// that each fits its device and that it hardly spills.
  void compile_covering(const std::vector<Source>& all, int max_spilled_bytes = 256);

  /// For pinned configurations that the search does not try: they may spill, and ptxas may serialize their wgmma.
  static constexpr int any_spills = std::numeric_limits<int>::max();

  /// Does the same for all distinct sources.
  void compile_all(const std::vector<Source>& all, int max_spilled_bytes = 256);

  static bool has_nvcc();
  /// Compiles the source with these flags and with warnings as errors; returns whether that succeeds.
  static bool nvcc_takes(const Source& source, const std::string& flags);

 private:
  std::shared_ptr<Compiler> compiler_;
  std::vector<Arch> supported_;
};

}  // namespace tunesmith::test
