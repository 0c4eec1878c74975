// Completion scripts: bash runs the printed function; zsh, where it is installed, checks the syntax.

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "tests/api/cli/process.h"

namespace tunesmith::cli {
namespace {

class CliCompletion : public CliTest {
 protected:
  std::string shell_output(const std::string& command) const {
    std::string output;
    std::FILE* pipe = popen(command.c_str(), "r");
    char buffer[4096];
    for (std::size_t read = 0; (read = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, read);
    EXPECT_EQ(pclose(pipe), 0) << command << "\n" << output;
    return output;
  }

  /// What bash offers for the last of the words.
  std::vector<std::string> completions(const std::vector<std::string>& words) const {
    if (!std::filesystem::exists(path("script"))) write("script", run({"completion", "bash"}).out);
    std::string line;
    for (const std::string& word : words) line += " '" + word + "'";
    write("ask", "cd '" + folder_.string() + "'\nsource ./script\nCOMP_WORDS=(tunesmith" + line +
                     ")\nCOMP_CWORD=" + std::to_string(words.size()) +
                     "\n_tunesmith\n[[ ${#COMPREPLY[@]} == 0 ]] || printf '%s\\n' " + "\"${COMPREPLY[@]}\"\n");
    std::istringstream lines(shell_output("bash '" + path("ask") + "'"));
    std::vector<std::string> found;
    for (std::string one; std::getline(lines, one);) found.push_back(one);
    return found;
  }
};

using Words = std::vector<std::string>;

bool holds(const Words& words, const std::string& word) { return std::ranges::find(words, word) != words.end(); }

TEST_F(CliCompletion, BashCompletesCommandsAndOperations) {
  EXPECT_EQ(completions({"so"}), Words{"source"});
  EXPECT_EQ(completions({"cache", "ve"}), Words{"verify"});
  EXPECT_EQ(completions({"run", "soft"}), (Words{"softmax", "softmax_backward"}));
  EXPECT_EQ(completions({"run", "cross_entropy_d"}), Words{});
  EXPECT_FALSE(holds(completions({""}), "completion"));
}

TEST_F(CliCompletion, BashCompletesFlagsOfTheOperationAndOfTheCommand) {
  EXPECT_EQ(completions({"run", "cross_entropy", "--label"}), Words{"--label-smoothing"});
  EXPECT_EQ(completions({"run", "softmax", "--label"}), Words{});
  const Words tune = completions({"tune", "softmax", "--rows", "8", "--"});
  for (const char* flag : {"--cols", "--mask-alignment", "--budget"}) EXPECT_TRUE(holds(tune, flag)) << flag;
  for (const char* flag : {"--input", "--ptx", "--here", "--head-dim"}) EXPECT_FALSE(holds(tune, flag)) << flag;
  EXPECT_TRUE(holds(completions({"run", "attention", "--"}), "--o-seq-stride"));
}

TEST_F(CliCompletion, BashCompletesValues) {
  EXPECT_EQ(completions({"run", "softmax", "--dtype", ""}), (Words{"f32", "f16", "bf16", "f64"}));
  EXPECT_EQ(completions({"source", "attention", "--causal", "t"}), Words{"top-left"});
  EXPECT_TRUE(holds(completions({"source", "attention", "--causal", "--he"}), "--heads"));
  EXPECT_EQ(completions({"run", "softmax", "--device", "=", "ho"}), Words{"host"});
  EXPECT_EQ(completions({"run", "softmax", "--mode", "="}), (Words{"tune", "later", "replay", "off"}));
  EXPECT_EQ(completions({"run", "softmax", "--rows", ""}), Words{});
  EXPECT_TRUE(holds(completions({"run", "softmax", "--causal", ""}), "--rows"));
  EXPECT_EQ(completions({"cache", "list", "--op", "att"}), (Words{"attention", "attention_backward"}));
}

TEST_F(CliCompletion, BashCompletesFiles) {
  write("scores.npy", "");
  write("problems.json", "");
  EXPECT_EQ(completions({"prewarm", "--spec", "prob"}), Words{"problems.json"});
  EXPECT_EQ(completions({"run", "softmax", "--input", "x", "=", "sco"}), Words{"scores.npy"});
  EXPECT_EQ(completions({"cache", "import", "sco"}), Words{"scores.npy"});
}

TEST_F(CliCompletion, ZshAcceptsTheScript) {
  const Outcome script = run({"completion", "zsh"});
  EXPECT_EQ(script.code, 0);
  EXPECT_TRUE(script.out.starts_with("#compdef tunesmith\n"));
  for (const char* part : {"'--label-smoothing:", "'softmax:", "compadd", "_files"})
    EXPECT_NE(script.out.find(part), std::string::npos) << part;
  if (std::system("command -v zsh >/dev/null") != 0) GTEST_SKIP() << "no zsh on this machine";
  write("_tunesmith", script.out);
  EXPECT_EQ(shell_output("zsh -n '" + path("_tunesmith") + "' 2>&1"), "");
}

TEST_F(CliCompletion, OnlyKnownShellsHaveAScript) {
  expect_rejected({"completion"}, {"needs a command: bash, zsh"});
  expect_rejected({"completion", "fish"}, {"no command 'fish'", "bash, zsh"});
}

}  // namespace
}  // namespace tunesmith::cli
