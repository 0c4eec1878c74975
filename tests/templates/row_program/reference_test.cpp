// docs/row-programs.md against the parser: the language reference has every word, limit and number of arguments that the
// parser has, and the parser every word of the reference. The list of shipped programs against the folder.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "templates/row_program/language/functions.h"
#include "templates/row_program/language/parse.h"
#include "templates/row_program/language/programs.h"
#include "templates/row_program/language/symbols.h"
#include "templates/row_program/passes/gradient.h"
#include "tests/support/source_folder.h"
#include "tunesmith/error.h"

namespace tunesmith::row_program {
namespace {

std::string page() {
  std::ifstream file(source_folder() / "docs/row-programs.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Returns the page from `begin` up to `end`.
std::string between(const std::string& begin, const std::string& end) {
  const std::string text = page();
  const std::size_t from = text.find(begin), to = text.find(end, from + begin.size());
  EXPECT_NE(from, std::string::npos) << begin;
  EXPECT_NE(to, std::string::npos) << end;
  return text.substr(from, to - from);
}

/// Returns the code spans of a part of the page.
std::vector<std::string> spans_of(const std::string& text) {
  const std::regex span("`([^`\n]+)`");
  std::vector<std::string> spans;
  for (std::sregex_iterator at(text.begin(), text.end(), span); at != std::sregex_iterator(); ++at)
    spans.push_back((*at)[1]);
  return spans;
}

std::set<std::string> words_of(const std::string& text) {
  const std::regex word("[A-Za-z_][A-Za-z_0-9]*");
  std::set<std::string> words;
  for (std::sregex_iterator at(text.begin(), text.end(), word); at != std::sregex_iterator(); ++at) words.insert(at->str());
  return words;
}

std::string joined(const std::vector<std::string>& spans) {
  std::string all;
  for (const std::string& span : spans) all += span + "\n";
  return all;
}

TEST(RowProgramReference, HasEveryWordOfTheParser) {
  const std::set<std::string> documented = words_of(joined(spans_of(between("## Language reference", "### Stages"))));
  for (const std::string_view word : words_of_the_language())
    EXPECT_TRUE(documented.contains(std::string(word))) << "docs/row-programs.md lacks `" << word << "`";
}

// Each word in a list of the page means something to the parser.
TEST(RowProgramReference, TheParserHasEveryWordOfTheReference) {
  std::set<std::string> known;
  for (const std::string_view word : words_of_the_language()) known.insert(std::string(word));
  // Functions: names in a row, or a call whose arguments are names of the reader's.
  const std::regex call("([a-z0-9_]+)\\(");
  std::set<std::string> functions_of_page;
  for (const std::string& span : spans_of(between("**Functions.**", "**Values.**"))) {
    std::smatch found;
    if (std::regex_search(span, found, call))
      functions_of_page.insert(found[1]);
    else
      functions_of_page.merge(words_of(span));
  }
  EXPECT_GT(functions_of_page.size(), 20U);
  std::set<std::string> of_parser{"bf16", "select", "uniform", "scatter"};  // a cast stands for all
  for (const Function& function : functions()) of_parser.insert(std::string(function.name));
  EXPECT_EQ(functions_of_page, of_parser);

  for (const auto& [begin, end] :
       std::vector<std::pair<const char*, const char*>>{{"**Types.**", "Arithmetic is"}, {"**Values.**", "A constant"}})
    for (const std::string& span : spans_of(between(begin, end)))
      if (span.find('[') == std::string::npos) {
        EXPECT_TRUE(known.contains(span)) << begin << " `" << span << "`";
      }
  // The first word of each row of the tables of statements and reductions.
  std::istringstream tables(between("## Language reference", "### Stages"));
  int rows = 0;
  for (std::string line; std::getline(tables, line);) {
    if (!line.starts_with("| `")) continue;
    for (const std::string& span : spans_of(line.substr(0, line.find(" | ", 2)))) {
      const std::string word = span.substr(0, span.find_first_of(" [("));
      EXPECT_TRUE(is_keyword(word) || span.find(" = expression") != std::string::npos) << line;
      ++rows;
    }
  }
  EXPECT_GT(rows, 20);
}

// A call with as many arguments as the page says is right; one more is an error that says how many there are.
TEST(RowProgramReference, FunctionsTakeTheArgumentsOfTheReference) {
  std::map<std::string, std::size_t> arguments;
  for (const std::string& span : spans_of(between("**Functions.**", "**Values.**"))) {
    const std::size_t open = span.find('(');
    if (open != std::string::npos)
      arguments[span.substr(0, open)] = static_cast<std::size_t>(std::ranges::count(span, ',')) + 1;
    else
      for (const std::string& name : words_of(span)) arguments.try_emplace(name, 1);
  }
  const auto error_of = [](const std::string& expression) -> std::string {
    try {
      parse("in x : f32[row, col]\nout y : f32[row, col] = " + expression + "\n");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  for (const Function& function : functions()) {
    const std::string name(function.name);
    ASSERT_TRUE(arguments.contains(name)) << name;
    EXPECT_EQ(arguments[name], function.arguments) << name;
    std::string call = name + "(x";
    for (std::size_t i = 1; i < function.arguments; ++i) call += ", x";
    EXPECT_EQ(error_of(call + ")"), "");
    EXPECT_NE(error_of(call + ", x)").find("expected " + std::to_string(function.arguments)), std::string::npos) << name;
  }
  EXPECT_EQ(error_of("select(x > 0, x, 1)"), "");
  EXPECT_EQ(error_of("x + uniform(3, 0)"), "");
}

TEST(RowProgramReference, LimitsAreThoseOfTheParser) {
  const std::string limits = between("### Limits", "### Accuracy");
  for (const std::string& part :
       {std::to_string(Limits::full_inputs) + " inputs and " + std::to_string(Limits::full_outputs) +
            " outputs `[row, col]`",
        std::to_string(Limits::other_arrays) + " arrays of each other kind", std::to_string(Limits::numbers) + " numbers",
        std::to_string(Limits::stages) + " stages", std::to_string(Graph::max_nodes) + " operations"})
    EXPECT_NE(limits.find(part), std::string::npos) << part;
  EXPECT_NE(between("### Reductions", "### Chosen columns").find("up to four components"), std::string::npos);
  EXPECT_EQ(Limits::components, 4);
}

// The library ships exactly these programs. All have a gradient, except for gumbel_sampling, which is an argmax.
TEST(RowProgramReference, EveryPromisedProgramIsShipped) {
  std::set<std::string> shipped;
  for (const auto& [name, text] : shipped_programs()) {
    shipped.insert(std::string(name));
    if (name == "gumbel_sampling") {
      EXPECT_THROW(gradient_text(parse(text)), Error);
    } else {
      EXPECT_NO_THROW(parse(gradient_text(parse(text)))) << name;
    }
  }
  std::set<std::string> promised{"softmax",           "log_softmax",        "softmin",        "softmax_dropout",
                                 "gumbel_sampling",   "topk_gate",          "swiglu",         "geglu",
                                 "row_quantize",      "cosine_similarity",  "cross_entropy",  "topk_gate_softmax",
                                 "topk_gate_sigmoid", "soft_cross_entropy", "merge_attention"};
  for (const std::string norm : {"rms_norm", "layer_norm"}) {
    promised.insert({norm, "add_" + norm, norm + "_unit_offset"});
    for (const char* type : {"_e4m3", "_i8"}) promised.insert({norm + type, norm + type + "_blocks"});
  }
  promised.insert("add_rms_norm_e4m3");
  EXPECT_EQ(shipped, promised);
}

}  // namespace
}  // namespace tunesmith::row_program
