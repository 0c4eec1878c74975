// Sources without the branches that a configuration does not take.

#include "templates/fold.h"

#include <gtest/gtest.h>

#include <string>

namespace tunesmith {
namespace {

const std::string shapes = R"(struct Shape {
  int cols;  ///< a comment; with a semicolon
  bool causal = false, ragged = false;
  int vector = 1;
  Hint hint = Hint::plain;
};
struct Config {
  int threads;
};
enum class Hint { plain, streaming };
template <const Shape& shape>
constexpr bool in_parts = shape.causal || shape.ragged;
template <typename T>
constexpr bool is_wide = false;
template <>
constexpr bool is_wide<double> = true;
)";
const std::string generated = "static constexpr tunesmith::Shape shape = {\n    .cols = 8,\n    .vector = 4,\n};\n";

/// Folds the body of a function.
std::string folded(const std::string& body, const std::string& constants = generated) {
  const std::string head = "template <const Shape& shape, int count>\nvoid kernel(Params& params) {\n", tail = "}\n";
  const std::string text = fold_branches(shapes + head + body + tail, constants);
  const std::size_t begin = text.find(head) + head.size();
  return text.substr(begin, text.size() - begin - tail.size());
}

TEST(Fold, TakesTheBranchThatTheConstantsDecide) {
  EXPECT_EQ(folded("  if constexpr (shape.causal) a();\n  b();\n"), "  b();\n");
  EXPECT_EQ(folded("  if constexpr (shape.cols == 8) a();\n  b();\n"), "  a();\n  b();\n");
  EXPECT_EQ(
      folded("  if constexpr (shape.causal) {\n    a();\n  } else if constexpr (shape.vector > 2) {\n    b();\n    c();\n"
             "  } else {\n    d();\n  }\n"),
      "  b();\n  c();\n");
  EXPECT_EQ(folded("  if constexpr (shape.hint == Hint::plain) a();\n  if constexpr (shape.hint != Hint::plain) b();\n"),
            "  a();\n");
}

TEST(Fold, LeavesWhatTheConstantsDoNotDecide) {
  for (const char* body : {"  if constexpr (count > 1) a();\n", "  if constexpr (shape.vector == 4 && count > 1) a();\n",
                           "  if constexpr (is_wide<T>) a();\n", "  if constexpr (Group::wide) a();\n",
                           "  if constexpr (sizeof(T) == 4) a();\n", "  if constexpr (other.causal) a();\n",
                           "  if constexpr (shape.unknown) a();\n", "  if (shape.causal) a();\n",
                           "  // if constexpr (shape.causal) is a comment\n"})
    EXPECT_EQ(folded(body), body);
  EXPECT_EQ(folded("  if constexpr (shape.causal && count > 1) a();\n"), "") << "false whatever count is";
}

TEST(Fold, KnowsConstantsThatFollow) {
  EXPECT_EQ(folded("  if constexpr (!in_parts<shape>) a();\n"), "  a();\n");
  EXPECT_EQ(folded("  constexpr int half = shape.cols / 2, more = half + 1;\n  if constexpr (more == 5) a();\n"),
            "  constexpr int half = shape.cols / 2, more = half + 1;\n  a();\n");
  const std::string chosen =
      "#if ARCH\n  constexpr bool fast = true;\n#else\n  constexpr bool fast = false;\n#endif\n  if constexpr (fast) a();\n";
  EXPECT_EQ(folded(chosen), chosen) << "the preprocessor decides";
  EXPECT_EQ(folded("  if constexpr (in_parts<Other<shape>::value>) a();\n"),
            "  if constexpr (in_parts<Other<shape>::value>) a();\n");
}

TEST(Fold, KnowsTheTypesThatTheConstantsChoose) {
  const std::string constants = "\nstruct Program {\n  static constexpr int kept = 0, stages = 2;\n};\n" + generated +
                                "struct Features<shape> {\n  using Mask = tunesmith::NoMask;\n};\n";
  const std::string text =
      "\nstruct NoMask {\n  static constexpr bool present = false, adds = false;\n};\nvoid kernel() {\n"
      "  if constexpr (Features::Mask::adds) a();\n  if constexpr (Program::stages > 1) b();\n}\n";
  EXPECT_TRUE(fold_branches(text, constants).ends_with("void kernel() {\n  b();\n}\n")) << fold_branches(text, constants);
}

TEST(Fold, TwoObjectsOfATypeDecideNothing) {
  const std::string body = "  if constexpr (shape.causal) a();\n";
  EXPECT_EQ(folded(body, generated + "static constexpr tunesmith::Shape other = {\n    .cols = 9,\n};\n"), body);
}

TEST(Fold, StatementsOfLoopsAndElseStayStatements) {
  EXPECT_EQ(folded("  for (int i = 0; i < 4; ++i)\n    if constexpr (shape.causal) a();\n  b();\n"),
            "  for (int i = 0; i < 4; ++i)\n    {}\n  b();\n");
  EXPECT_EQ(folded("  if (x) {\n    a();\n  } else if constexpr (shape.causal) {\n    b();\n  }\n  c();\n"),
            "  if (x) {\n    a();\n  }\n  c();\n");
}

TEST(Fold, BracesKeepNamesApart) {
  EXPECT_EQ(folded("  if constexpr (shape.cols > 1) {\n    const int a = 1;\n    f(a);\n  }\n  const int a = 2;\n"),
            "  {\n    const int a = 1;\n    f(a);\n  }\n  const int a = 2;\n");
}

TEST(Fold, WhatFollowsAReturnIsDead) {
  EXPECT_EQ(folded("  if constexpr (shape.cols > 1) return a();\n  return b();\n"), "  return a();\n");
  EXPECT_EQ(folded("  if constexpr (shape.cols < 1) return a();\n  return b();\n"), "  return b();\n");
}

TEST(Fold, ACommentGoesWithItsBranch) {
  EXPECT_EQ(folded("  a();\n  // Why b.\n  if constexpr (shape.causal) b();\n  c();\n"), "  a();\n  c();\n");
}

TEST(Fold, ConditionalExpressions) {
  EXPECT_EQ(folded("  const int n = shape.causal ? f(1, 2) : g(3);\n"), "  const int n = g(3);\n");
  EXPECT_EQ(folded("  const int n = shape.vector > 2 ? f<1, 2>(1) : g<3, 4>(3), m = 1;\n"),
            "  const int n = f<1, 2>(1), m = 1;\n");
  EXPECT_EQ(folded("  return x + (shape.causal ? 1 : shape.vector == 4 ? y : 3);\n"), "  return x + y;\n");
  EXPECT_EQ(folded("  call(shape.causal ? 1 : z);\n"), "  call(z);\n");
  EXPECT_EQ(folded("  return count > 1 ? 1 : 2;\n"), "  return count > 1 ? 1 : 2;\n");
}

}  // namespace
}  // namespace tunesmith
