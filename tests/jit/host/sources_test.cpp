// Finding entry points in a source, and keeping its lines.
#include <gtest/gtest.h>

#include "jit/host/translation_unit.h"

namespace tunesmith {
namespace {

using host::entry_names;
using Names = std::vector<std::string>;

TEST(HostExecutorSources, FindsEntryPoints) {
  EXPECT_EQ(entry_names("extern \"C\" __global__ void softmax(const P p) {}"), Names{"softmax"});
  EXPECT_EQ(entry_names("extern \"C\"\n__global__ void\n__launch_bounds__(32 * (4 + 4), 1)\n  softmax (const P p) {}"),
            Names{"softmax"});
  EXPECT_EQ(entry_names("extern \"C\" __global__ __launch_bounds__(512) void __cluster_dims__(2, 1, 1) a(P p) {}\n"
                        "extern \"C\" __global__ void b() {}"),
            (Names{"a", "b"}));
  EXPECT_EQ(entry_names("extern \"C\" __global__ void a(P p);\nextern \"C\" __global__ void a(P p) {}"), Names{"a"});
}

TEST(HostExecutorSources, IgnoresOtherFunctions) {
  EXPECT_EQ(entry_names(""), Names{});
  EXPECT_EQ(entry_names("// extern \"C\" __global__ void a(P p) {}\n"), Names{});
  EXPECT_EQ(entry_names("/* it's\nextern \"C\" __global__ void a(P p) {} */"), Names{});
  EXPECT_EQ(entry_names("extern \"C\" void a(P p);\n__device__ int b();\nextern int c;"), Names{});
  EXPECT_EQ(entry_names("my_extern \"C\" __global__ void a(P p) {}"), Names{});
  EXPECT_EQ(entry_names("extern \"C\" __global__ void"), Names{});
  EXPECT_EQ(entry_names(" # define K(name) \\\n extern \"C\" __global__ void name(P p) {}\n"), Names{});
  EXPECT_EQ(entry_names("#define A 1\nextern \"C\" __global__ void a(P p) {}"), Names{"a"});
  EXPECT_EQ(entry_names("constexpr int n = 1'000'000; extern \"C\" __global__ void a(P p) {}"), Names{"a"});
  EXPECT_EQ(entry_names("const char* s = \"// \\\" /*\"; extern \"C\" __global__ void a(P p) {}"), Names{"a"});
}

TEST(HostExecutorSources, KeepsLinesAndColumns) {
  const CompileRequest request = {"a\"b.cu", "#pragma once\nint x;\nextern \"C\" __global__ void a(P p) {}\n", {9, 0, 'a'}};
  const auto files = host::translation_unit({&request, 1});
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[1].second, "#line 1 \"a\\\"b.cu\"\n            \nint x;\n           __global__ void a(P p) {}\n\n");
}

}  // namespace
}  // namespace tunesmith
