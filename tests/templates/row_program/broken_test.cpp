// Broken programs: each gives an error at the place and with the message that broken_programs.txt states.

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <regex>
#include <sstream>

#include "templates/row_program/language/canonical.h"
#include "templates/row_program/language/parse.h"
#include "templates/row_program/language/programs.h"
#include "tests/support/source_folder.h"
#include "tests/support/torture.h"
#include "tests/templates/row_program/random_programs.h"
#include "tunesmith/error.h"

namespace tunesmith::row_program {
namespace {

std::string error_of(std::string_view text) {
  try {
    parse(text, "norm.row");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "none";
}

struct Broken {
  std::string expected, text;  // "2:5: message"
};

/// The file has for each program a line `%% line:column: message`, and the program. After a line such as
/// `%%% in x : f32[row, col]\n...`, each line `TEXT %% line:column: message` is a program, with its text for the dots.
std::vector<Broken> broken_programs() {
  std::ifstream file(source_folder() / "tests/templates/row_program/broken_programs.txt");
  std::vector<Broken> programs;
  std::string before, after;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("%%% ")) {
      const std::string frame = std::regex_replace(line.substr(4), std::regex(R"(\\n)"), "\n") + "\n";
      before = frame.substr(0, frame.find("..."));
      after = frame.substr(before.size() + 3);
    } else if (const std::size_t at = line.rfind("%% "); !after.empty()) {
      programs.push_back({line.substr(at + 3), before + line.substr(0, at - 1) + after});
    } else if (at == 0) {
      programs.push_back({line.substr(3), ""});
    } else {
      programs.back().text += line + "\n";
    }
  }
  return programs;
}

TEST(RowProgramErrors, BrokenProgramsFailWithTheirMessages) {
  const std::vector<Broken> programs = broken_programs();
  ASSERT_GT(programs.size(), 400u);
  for (const Broken& program : programs) {
    const std::string error = error_of(program.text);
    ASSERT_EQ(error.substr(0, error.find('\n')), "norm.row:" + program.expected) << program.text;
    // The last line has a caret below the column.
    const std::size_t caret = error.rfind('\n');
    EXPECT_EQ(error.back(), '^');
    const int column = std::stoi(program.expected.substr(program.expected.find(':') + 1));
    if (column < 100) {
      EXPECT_EQ(error.size() - caret - 1, static_cast<std::size_t>(column) + 2) << error;
    }
  }
}

TEST(RowProgramErrors, ShowTheLineAndACaret) {
  EXPECT_EQ(error_of("in x : f32[row, col]\nout y : f32[row, col] = x + sqr(x)\n"),
            "norm.row:2:29: 'sqr' is not defined; did you mean 'sqrt'?\n"
            "  out y : f32[row, col] = x + sqr(x)\n"
            "                              ^");
  EXPECT_EQ(error_of("\tz = 1 +  # nothing\n"),
            "norm.row:1:9: expected a value, not the end of the line\n  \tz = 1 +  # nothing\n  \t       ^");
}

/// Replaces, removes, doubles or inserts parts of a text.
std::string mutated(std::string text, std::mt19937_64& random) {
  constexpr std::string_view pieces[] = {
      "(",       ")",         "[",     "]",        ",",         ":",       "=",    "+",        "-",        "*",       "/",
      "?",       "<",         "!",     "&&",       "\n",        ";",       " ",    "in ",      "out ",     "num ",    "fn ",
      "monoid ", "identity ", "sum ",  "max ",     "reduce ",   "x",       "row",  "col",      "1",        "1e30",    "0",
      "bf16",    "e4m3",      "float", "exp",      "uniform",   "select",  "\t",   "#",        "moments ", "colsum ", "128",
      "\xc3",    "inf",       "nan",   "topk[4] ", "topk[64] ", "scatter", "rank", "[row, 8]", "[row, 4]"};
  const int changes = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < changes; ++i) {
    const std::size_t at = random() % (text.size() + 1), length = random() % 12;
    const std::string_view piece = pieces[random() % std::size(pieces)];
    switch (random() % 5) {
      case 0: text.insert(at, piece); break;
      case 1: text.erase(at, length); break;
      case 2: text.replace(at, std::min(length, text.size() - at), piece); break;
      case 3: text.insert(random() % (text.size() + 1), text.substr(at, 3 * length)); break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(random());
    }
  }
  return text;
}

// Under the address sanitizer (`make asan`), this is a fuzz test of the lexer, the parser and the canonical form; `make
// torture` runs more rounds.
TEST(RowProgramErrors, MutatedProgramsGiveErrorsAndNothingElse) {
  std::mt19937_64 random(7);
  int correct = 0, broken = 0;
  for (unsigned round = 0; round < torture_rounds(300); ++round)
    for (const auto& [name, text] : shipped_programs()) {
      std::string program = mutated(std::string(text), random);
      if (round % 10 == 0) program = mutated(random_program(random()), random);
      try {
        canonical_text(with_dtype(parse(program), Type::f16));
        ++correct;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        ++broken;
      }
    }
  EXPECT_GT(correct, 300);
  EXPECT_GT(broken, 1000);
}

std::string monoid_error(const std::string& monoid, const std::string& reduction) {
  const std::string text = "in x : f32[row, col]\n" + monoid + "\nreduce " + reduction + "\nout y : f32[row, col] = x + m\n";
  try {
    parse(text, "norm.row");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RowProgramMonoids, AssociativeOnesPass) {
  EXPECT_EQ(monoid_error("monoid product(a, b) = a * b identity 1", "m = product(x)"), "");
  EXPECT_EQ(monoid_error("monoid largest(a, b) = max(a, b) identity -inf", "m = largest(x)"), "");
  EXPECT_EQ(monoid_error("fn scaled(s, m, top) = select(m == top, s, s * exp(m - top))\n"
                         "monoid online((a, b), (c, d)) = (max(a, c), scaled(b, a, max(a, c)) + scaled(d, c, max(a, c))) "
                         "identity (-inf, 0)",
                         "m, s = online(x, 1)"),
            "");
}

TEST(RowProgramMonoids, OthersFailWithACounterexample) {
  const auto expect = [](const std::string& error, const std::string& part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
    EXPECT_TRUE(error.starts_with("norm.row:2:8: monoid 'f' ")) << error;
  };
  expect(monoid_error("monoid f(a, b) = a - b identity 0", "m = f(x)"), "does not keep a value");
  expect(monoid_error("monoid f(a, b) = (a + b) / 2 + select(a == b, 0, 0) identity 0", "m = f(x)"), "identity");
  expect(monoid_error("monoid f(a, b) = select(a == 0, b, select(b == 0, a, (a + b) / 2)) identity 0", "m = f(x)"),
         "is not associative: with x = ");
  expect(monoid_error("monoid f(a, b) = select(b == 0, a, select(a == 0, b, a)) identity 0", "m = f(x)"),
         "depends on the order");
  expect(monoid_error("monoid f(a, b) = a * b identity 0", "m = f(x)"), "f(0, 1) = 0");
  // exp(-inf - -inf) is NaN.
  expect(monoid_error(
             "monoid f((a, b), (c, d)) = (max(a, c), b * exp(a - max(a, c)) + d * exp(c - max(a, c))) identity (-inf, 0)",
             "m, s = f(x, 1)"),
         "identity");
}

}  // namespace
}  // namespace tunesmith::row_program
