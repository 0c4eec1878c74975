// The printer, canonical texts and cost classes.

#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "templates/row_program/language/canonical.h"
#include "templates/row_program/language/parse.h"
#include "templates/row_program/language/programs.h"
#include "templates/row_program/language/text_of.h"
#include "templates/row_program/passes/gradient.h"
#include "tests/support/source_folder.h"
#include "tests/templates/row_program/random_programs.h"

namespace tunesmith::row_program {
namespace {

TEST(RowProgramText, OfAThousandRandomProgramsParsesToTheSameProgram) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const std::string text = random_program(seed);
    const Program program = parse(text);
    const std::string printed = text_of(program);
    ASSERT_EQ(canonical_text(parse(printed)), canonical_text(program)) << text << "\nprinted:\n" << printed;
    ASSERT_EQ(text_of(parse(printed)), printed);
  }
}

TEST(RowProgramText, OfShippedProgramsAndTheirGradientsParsesToTheSameProgram) {
  for (const auto& [name, text] : shipped_programs()) {
    const Program program = parse(text);
    EXPECT_EQ(canonical_text(parse(text_of(program))), canonical_text(program)) << text_of(program);
    if (name == "gumbel_sampling") continue;
    const std::string gradient = gradient_text(program);
    EXPECT_EQ(text_of(parse(gradient)), gradient);
  }
}

/// The blocks of code of docs/row-programs.md that are programs.
std::vector<std::string> documented_programs() {
  std::ifstream file(source_folder() / "docs/row-programs.md");
  std::vector<std::string> programs;
  bool open = false, inside = false;  // blocks of other languages name them
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      open = !open;
      inside = open && line == "```";
      if (inside) programs.emplace_back();
    } else if (inside) {
      programs.back() += line + "\n";
    }
  }
  return programs;
}

TEST(RowProgramText, ProgramsOfTheDocumentationAreCorrect) {
  const std::vector<std::string> programs = documented_programs();
  ASSERT_GE(programs.size(), 3u);
  for (const std::string& text : programs) EXPECT_NO_THROW(parse(text, "row-programs.md"));
  EXPECT_EQ(programs.back(), gradient_text(parse(shipped_program("rms_norm"))));
}

TEST(RowProgramText, KeepsMonoidsAndSeveralResults) {
  const char* const text =
      "in x : bf16[row, col]\n"
      "fn scaled(s, m, top) = select(m == top, s, s * exp(m - top))\n"
      "monoid online((a, b), (c, d)) = (max(a, c), scaled(b, a, max(a, c)) + scaled(d, c, max(a, c))) identity (-inf, 0)\n"
      "reduce m, s = online(x, 1)\nmoments u, v = x\n"
      "out y : bf16[row, col] = exp(x - m) / s + v\n";
  const Program program = parse(text);
  EXPECT_EQ(canonical_text(parse(text_of(program))), canonical_text(program)) << text_of(program);
}

TEST(RowProgramCanonical, IgnoresNamesBlanksAndOrder) {
  const std::string one =
      canonical_text(parse("in x : bf16[row, col]\nin w : f32[col]\nnum eps = 1e-6\n"
                           "sum ss = x * x\nmax m = abs(x)\nout y : bf16[row, col] = x * rsqrt(ss + eps) * w + m\n"));
  EXPECT_EQ(one, canonical_text(parse("# The same.\nin weight : f32[col]; in a : bf16 [ row , col ]\nnum e : f32 = 1e-5\n"
                                      "max largest = abs(a)\nunused = a * 2\nsum squares = (a * a)\nr = rsqrt(e + squares)\n"
                                      "out z : bf16[row, col] = largest + weight * (r * a)\n")));
  EXPECT_NE(one, canonical_text(parse("in x : bf16[row, col]\nin w : f32[col]\nnum eps = 1e-6\n"
                                      "sum ss = x * x\nmax m = x\nout y : bf16[row, col] = x * rsqrt(ss + eps) * w + m\n")));
  EXPECT_NE(one,
            canonical_text(parse("in x : f16[row, col]\nin w : f32[col]\nnum eps = 1e-6\n"
                                 "sum ss = x * x\nmax m = abs(x)\nout y : bf16[row, col] = x * rsqrt(ss + eps) * w + m\n")));
  EXPECT_NE(canonical_text(parse("in x, y : f32[row, col]\nout z : f32[row, col] = x - y\n")),
            canonical_text(parse("in x, y : f32[row, col]\nout z : f32[row, col] = y - x\n")));
}

TEST(RowProgramCanonical, CostClassesJoinSimilarPrograms) {
  const auto of = [](std::string_view name) { return cost_class(parse(shipped_program(name))); };
  EXPECT_EQ(of("rms_norm"), of("rms_norm"));
  EXPECT_NE(of("rms_norm"), of("layer_norm"));
  EXPECT_NE(of("rms_norm"), of("add_rms_norm"));
  EXPECT_EQ(cost_class(parse("in x : f32[row, col]\nsum s = x * x\nout y : f32[row, col] = x / s\n")),
            cost_class(parse("in a : f32[row, col]\nmax s = a + a\nout y : f32[row, col] = a / s\n")));
}

}  // namespace
}  // namespace tunesmith::row_program
