// Scans the source of a mask_mod for parameters that it certainly ignores. If it ignores b or h, one block mask serves all
// batch entries or heads.

#include <gtest/gtest.h>

#include "tests/templates/attention/masks.h"
#include "tunesmith/attention.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

/// The parameters that the block mask depends on.
enum Apart { both, batches, heads, neither };

Apart apart(const std::string& text, bool varlen = false) {
  AttentionProblem problem;
  problem.batch = 3;
  problem.heads = 5;
  problem.seq_q = 130;           // 3 tiles
  problem.seq_kv = 64 * 32 + 1;  // 2 words
  problem.mask_mod = text;
  problem.aux = {{.name = "flags", .dtype = DType::u8, .length = 4}};
  if (varlen) {
    problem.varlen = true;
    problem.total_q = problem.total_kv = 100;
  }
  const std::int64_t one = 3 * 2 * 2, size = block_mask_size(problem);
  if (size == 15 * one) return both;
  if (size == 3 * one) return batches;
  if (size == 5 * one) return heads;
  EXPECT_EQ(size, one) << text;
  return neither;
}

std::string function(const std::string& parameters, const std::string& body = "return q < k;") {
  return "__device__ bool mask_mod(" + parameters + ", int q, int k, const Aux& aux) {\n  " + body + "\n}\n";
}

TEST(AttentionMaskScan, ParametersThatOccurOnceAreUnused) {
  EXPECT_EQ(apart(function("int b, int h")), neither);
  EXPECT_EQ(apart(function("int b, int h", "return aux.flags[b];")), batches);
  EXPECT_EQ(apart(function("int b, int h", "return q < h;")), heads);
  EXPECT_EQ(apart(function("int b, int h", "return b < h;")), both);
  // Parameters with any name or none, and other identifiers that contain the name.
  EXPECT_EQ(apart(function("int sequence, const int head", "return sequence < q;")), batches);
  EXPECT_EQ(apart(function("int sequence, int const head", "return head < q;")), heads);
  EXPECT_EQ(apart(function("int, int")), neither);
  EXPECT_EQ(apart(function("int, const int /*h*/", "const int b = 1, h = b; return q < h;")), neither);
  EXPECT_EQ(apart(function("int b, int h", "const int bb = 1, hb = 2, _h = 3; return bb + hb + _h < k;")), neither);
  EXPECT_EQ(apart("__device__ int twice(int n) { return 2 * n; }\n" + function("int b,\n  int h", "return twice(k) < q;")),
            neither);
}

TEST(AttentionMaskScan, IgnoresCommentsAndLiterals) {
  EXPECT_EQ(apart("// Of b and h. #1 isn't meant\n" + function("int b, int h", "/* b\nh */ return q < k;  // h")), neither);
  EXPECT_EQ(apart(function("int b, int h", "static_assert(sizeof(b) == 4, \"h\"); return 'h' < k + 1'000;")), batches);
}

TEST(AttentionMaskScan, UncertainParametersAreUsed) {
  for (const std::string& text : {
           "#define ROW b\n" + function("int b, int h", "return ROW < q;"),
           "#define ONE 1\n" + function("int b, int h", "return ONE < q;"),
           "%:define ROW b\n" + function("int b, int h", "return q < k;"),
           function("int b, int h", "return b\\\nb < q;"),
           "// goes on \\\n" + function("int b, int h", "return q < k;") + function("int b, int h"),
           function("int b, int h",
                    "return q < k;  // ?"
                    "?/"),
           function("int b, int h", "const char* text = R\"()\"; return text[0] < k;"),
           function("int b, int h", "return u'\"' < b + h;  // \""),
           function("int b, int h", "int x; asm(\"\" : \"=r\"(x)); return x < k;"),
           // Declared twice, or with types other than int.
           "__device__ bool mask_mod(int b, int h, int, int, const Aux&);\n" + function("int x, int y", "return q < x + y;"),
           "using Index = int;\n" + function("Index b, Index h"),
           function("[[maybe_unused]] int b, [[maybe_unused]] int h"),
           function("int b = 0, int h = 0"),
       })
    EXPECT_EQ(apart(text), both) << text;
}

TEST(AttentionMaskScan, PackedSequencesAlwaysDependOnTheSequence) {
  EXPECT_EQ(apart(function("int b, int h"), true), batches);
  EXPECT_EQ(apart(function("int b, int h", "return b < h;"), true), both);
}

TEST(AttentionMaskScan, ShippedExamples) {
  const auto shape_of = [](const char* example, const char* aux) {
    Problem problem = test::modified("batch=3,heads=5,seq_q=130,seq_kv=260,head_dim=8",
                                     {{"mask_mod", test::mod_example(example)}, {"aux", aux}, {"block_mask", "write"}});
    for (const ArrayInfo& array : find_op("attention").parse(problem)->arrays())
      if (array.name == "block_mask") return array.shape;
    return std::vector<std::int64_t>();
  };
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shape_of("document_mask", ""), (Shape{3, 1, 3, 2, 1}));
  EXPECT_EQ(shape_of("prefix_lm", ""), (Shape{3, 1, 3, 2, 1}));
  EXPECT_EQ(shape_of("dilated_window", ""), (Shape{1, 1, 3, 2, 1}));
}

TEST(AttentionMaskScan, ErrorsNameInvalidFields) {
  const auto rejection = [](const std::vector<std::pair<std::string, std::string>>& texts) -> std::string {
    try {
      (void)test::modified("seq_q=130,head_dim=8", texts);
    } catch (const Error& error) {
      return error.what();
    }
    return "it is accepted";
  };
  EXPECT_NE(rejection({{"block_mask", "write"}}).find("block_mask is write, but there is no mask_mod"), std::string::npos);
  EXPECT_NE(rejection({{"mask_mod", function("int b, int h")}, {"block_mask", "keep"}}).find("internal"), std::string::npos);
  EXPECT_NE(rejection({{"mask_mod", function("int b, int h")}, {"aux", "block_mask:i32[4]"}}).find("'block_mask'"),
            std::string::npos);
  EXPECT_EQ(block_mask_size({.seq_q = 64}), 0);
}

}  // namespace
}  // namespace tunesmith
