// Rules that a text search can check: no path of one machine, nothing put off, files that say what they are for, and what
// the design keeps out of certain folders.

#include <gtest/gtest.h>

#include <sstream>
#include <string_view>
#include <vector>

#include "tests/support/source_tree.h"

namespace tunesmith {
namespace {

bool is_cpp(std::string_view path) { return path.ends_with(".cpp") || path.ends_with(".h"); }

bool is_library(std::string_view path) {
  if (path.starts_with("api/")) return is_cpp(path) && !path.starts_with("api/cli/") && !path.starts_with("api/examples/");
  for (const std::string_view folder : {"templates/", "jit/", "cache/", "tuner/"}) {
    if (path.starts_with(folder)) return is_cpp(path);
  }
  return false;
}

bool is_any(std::string_view path) { return path != "LICENSE"; }

struct Forbidden {
  std::string_view words;  // as they stand in a line
  bool (*applies)(std::string_view path);
  std::string_view reason;
  std::string_view exception = "";  // a file that may
};

const std::vector<Forbidden> forbidden = {
    {"/work/", is_any, "a path of one machine"},
    {"/root/", is_any, "a path of one machine"},
    {"/home/", is_any, "a path of one machine"},
    {"/tmp/", is_any, "a path of one machine: ask the system for its temporary folder"},
    {"TODO", is_any, "do it or leave it out"},
    {"FIXME", is_any, "do it or leave it out"},
    {"\r", is_any, "line ends are those of Unix"},
    {"Manager", is_cpp, "a name of the field says more"},
    {"Factory", is_cpp, "a name of the field says more"},
    {"Helper", is_cpp, "a name of the field says more"},
    {"using namespace std;", is_cpp, "names come qualified"},
    {"getenv(", is_library, "the environment is read in EngineOptions::from_environment alone",
     "api/engine/environment.cpp"},
    {"std::cout", is_library, "the library never prints"},
    {"std::cerr", is_library, "the library never prints", "api/engine/environment.cpp"},
    {" printf(", is_library, "the library never prints"},
    {"std::tolower(", is_library, "depends on the locale"},
};

std::vector<std::string> broken_rules(std::string_view path, const std::string& contents) {
  std::vector<std::string> broken;
  const bool drawn = path.starts_with("bench/plots/");  // by a program: its line ends are its own business
  std::istringstream lines(contents);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string place = std::string(path) + ":" + std::to_string(number) + ": ";
    if (!drawn && (line.ends_with(' ') || line.ends_with('\t'))) broken.push_back(place + "blanks at the end of the line");
    for (const Forbidden& rule : forbidden) {
      if (!rule.applies(path) || path == rule.exception) continue;
      if (line.find(rule.words) == std::string::npos) continue;
      broken.push_back(place + "'" + std::string(rule.words) + "': " + std::string(rule.reason));
    }
  }
  if (!drawn && !contents.empty() && !contents.ends_with('\n'))
    broken.push_back(std::string(path) + ": no newline at its end");
  return broken;
}

std::string stem(std::string_view path) {
  path = path.substr(path.rfind('/') + 1);
  return std::string(path.substr(0, path.find('.')));
}

// The header that a .cpp implements: of its name, or of its folder.
bool is_own_header(std::string_view path, std::string_view line) {
  const std::string folder(path.substr(0, path.rfind('/') + 1));
  return line.find("/" + stem(path) + ".h\"") != std::string_view::npos || line.starts_with("#include \"" + folder);
}

// A header, a kernel and a script say what they are for in their first lines; a .cpp may leave that to its header.
bool says_what_it_is_for(std::string_view path, const std::string& contents) {
  std::istringstream lines(contents);
  std::string line;
  for (int number = 1; number <= 3 && std::getline(lines, line); ++number) {
    if (line.starts_with("//") || line.starts_with("/*")) return true;
    if (line.starts_with("#include") && path.ends_with(".cpp")) return is_own_header(path, line);
    if (line.starts_with("# ") && (path.ends_with(".sh") || path.starts_with("cmake/"))) return true;
  }
  return false;
}

bool must_say_what_it_is_for(std::string_view path) {
  for (const std::string_view ending : {".h", ".cpp", ".cuh", ".sh"}) {
    if (path.ends_with(ending)) return true;
  }
  return path.starts_with("cmake/");
}

TEST(SourceRules, NothingForbiddenStandsInAnyFile) {
  const SourceTree tree = read_source_tree(TUNESMITH_SOURCE_DIR);
  EXPECT_GT(tree.size(), 100u) << "the sources were not found";
  for (const auto& [path, contents] : tree) {
    if (path == "tests/quality/source_rules_test.cpp") continue;  // it spells the words
    for (const std::string& broken : broken_rules(path, contents)) ADD_FAILURE() << broken;
  }
}

TEST(SourceRules, EveryFileSaysWhatItIsFor) {
  for (const auto& [path, contents] : read_source_tree(TUNESMITH_SOURCE_DIR)) {
    if (must_say_what_it_is_for(path)) {
      EXPECT_TRUE(says_what_it_is_for(path, contents)) << path << " does not open with a comment that says what it is for";
    }
  }
}

TEST(SourceRules, EveryHeaderIsGuarded) {
  for (const auto& [path, contents] : read_source_tree(TUNESMITH_SOURCE_DIR)) {
    if (!path.ends_with(".h") && !path.ends_with(".cuh")) continue;
    const bool c_guard = contents.find("#ifndef TUNESMITH_") != std::string::npos;  // for C compilers
    const bool meant = contents.find("No include guard: ") != std::string::npos;
    EXPECT_TRUE(contents.find("#pragma once\n") != std::string::npos || c_guard || meant) << path;
  }
}

TEST(SourceRules, EveryRuleCatchesWhatItForbids) {
  for (const Forbidden& rule : forbidden) {
    const std::string line = "int x;  // " + std::string(rule.words) + "\n";
    EXPECT_EQ(broken_rules("jit/example.cpp", line).size(), 1u) << rule.words;
    if (!rule.exception.empty()) {
      EXPECT_TRUE(broken_rules(rule.exception, line).empty()) << rule.words;
    }
  }
  EXPECT_EQ(broken_rules("jit/example.cpp", "int x; \n").size(), 1u);
  EXPECT_EQ(broken_rules("jit/example.cpp", "int x;").size(), 1u);
  EXPECT_TRUE(broken_rules("jit/example.cpp", "int x;\n").empty());

  EXPECT_FALSE(says_what_it_is_for("jit/example.h", "#pragma once\n\nint x;\n"));
  EXPECT_FALSE(says_what_it_is_for("jit/example.cpp", "#include \"cache/other.h\"\n"));
  EXPECT_FALSE(says_what_it_is_for("scripts/example.sh", "#!/usr/bin/env bash\nset -e\n"));
  EXPECT_TRUE(says_what_it_is_for("jit/example.h", "#pragma once\n// An example.\n"));
  EXPECT_TRUE(says_what_it_is_for("jit/example.cpp", "#include \"jit/example.h\"\n"));
  EXPECT_TRUE(says_what_it_is_for("scripts/example.sh", "#!/usr/bin/env bash\n# An example.\n"));
}

}  // namespace
}  // namespace tunesmith
