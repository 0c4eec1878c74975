// Rendering: pure, self-contained, equal to the golden sources.

#include "templates/render.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

#include "tests/support/golden_sources.h"
#include "tests/support/source_folder.h"
#include "tests/templates/golden_cases.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

TEST(Render, IsDeterministic) {
  for (const GoldenCase& c : golden_cases) EXPECT_EQ(rendered(c), rendered(c)) << c.name;
}

TEST(Render, DependsOnlyOnSpecializedFields) {
  GoldenCase c = golden_cases[0];
  const std::string text = rendered(c);
  c.problem = "rows=100000,cols=1024,x_row_stride=2048";
  EXPECT_EQ(rendered(c), text);
  c.problem = "rows=4096,cols=1028";
  EXPECT_NE(rendered(c), text);
}

// Golden texts omit the device code, so that changing a kernel does not change every one. Set TUNESMITH_UPDATE_GOLDEN to
// write them anew.
TEST(Render, MatchesTheGoldenSources) {
  test::GoldenSources golden("render");
  for (const GoldenCase& c : golden_cases) {
    std::string text = rendered(c);
    const std::size_t begin = text.find("#line 1 "), end = text.rfind("#line ");
    ASSERT_NE(begin, end);
    text = text.substr(0, begin) + "... device code ...\n" + text.substr(text.find('\n', end) + 1);
    text = std::regex_replace(text, std::regex("\\b[0-9a-f]{32}\\b"), "<digest>");
    golden.check(c.name, std::regex_replace(text, std::regex("line [0-9]+"), "line <number>"));
  }
  golden.finish();
}

/// Calls check(case) for every line of kernel_variants.txt, which scripts/compare_kernels.py compiles, and returns their
/// number.
template <typename Check>
std::size_t over_kernel_variants(const Check& check) {
  std::ifstream lines(source_folder() / "tests/templates/kernel_variants.txt");
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    std::string op, arch, config, problem;
    words >> op >> arch >> config;
    std::getline(words >> std::ws, problem);
    check(GoldenCase{line.c_str(), op.c_str(), problem.c_str(), arch.c_str(), config.c_str()});
    ++count;
  }
  return count;
}

TEST(Render, KernelVariantsAreValid) {
  EXPECT_GE(over_kernel_variants([](const GoldenCase& c) { EXPECT_NO_THROW(rendered(c)) << c.name; }), 100U);
}

TEST(Render, GoldenCasesCoverEveryTemplateOfRows) {
  std::set<std::string> included;
  for (const GoldenCase& c : golden_cases) {
    const auto [problem, config] = parsed(c);
    for (const std::string& file : problem->source_parts(config).includes) included.insert(file);
  }
  EXPECT_EQ(included, (std::set<std::string>{"device/double_exponential.cuh",
                                             "device/float8.cuh",
                                             "kv_append/kv_append.cuh",
                                             "merge_attention_parts/merge_attention_parts.cuh",
                                             "device/group_of_cluster.cuh",
                                             "row/double.cuh",
                                             "row/schedules/staged.cuh",
                                             "softmax/resident.cuh",
                                             "softmax/tiled.cuh",
                                             "softmax/pipeline.cuh",
                                             "softmax/backward_pipeline.cuh",
                                             "softmax/backward_resident.cuh",
                                             "softmax/backward_tiled.cuh",
                                             "softmax/strided.cuh",
                                             "softmax/strided_backward.cuh",
                                             "cross_entropy/arithmetic_f64.cuh",
                                             "cross_entropy/backward.cuh",
                                             "cross_entropy/resident.cuh",
                                             "cross_entropy/shard_f64.cuh",
                                             "cross_entropy/staged.cuh",
                                             "cross_entropy/strided.cuh",
                                             "cross_entropy/strided_backward.cuh",
                                             "row/double_functions.cuh",
                                             "row/schedules/persistent.cuh",
                                             "row/schedules/resident.cuh",
                                             "row/schedules/tiled.cuh",
                                             "row/schedules/totals.cuh",
                                             "strided/schedules.cuh"}));
}

// A change of any template that a kernel is made of makes its tuning results older ones.
TEST(Render, SourcesIncludeTemplatesOfTheirOperationAlone) {
  const auto check = [](const GoldenCase& c) {
    const auto [problem, config] = parsed(c);
    const SourceParts parts = problem->source_parts(config);
    const std::vector<std::string> templates = problem->op().templates();
    for (const std::string& file : parts.includes)
      EXPECT_TRUE(std::ranges::any_of(templates,
                                      [&](const std::string& name) { return file == name || file.starts_with(name + "/"); }))
          << c.name << ": " << file;
    EXPECT_NE(TemplateSet::embedded().file(parts.includes.back()).find(" void " + parts.kernel + "("), std::string::npos)
        << c.name << ": the last file has the kernel";
  };
  std::ranges::for_each(golden_cases, check);
  over_kernel_variants(check);
}

TEST(Render, IsOneSelfContainedUnit) {
  std::vector<std::string> sources = {TemplateSet::embedded().flatten("device/matrix.cuh")};
  for (const GoldenCase& c : golden_cases) sources.push_back(rendered(c));
  for (const std::string& source : sources) {
    std::istringstream lines(source);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_FALSE(line.starts_with("#include \"")) << line;
      if (line.starts_with("#include")) {
        const bool is_platform = std::ranges::any_of(
            std::array{"platform", "matrix", "hopper", "wgmma"},
            [&](const char* layer) { return line.starts_with(std::string("#include <tunesmith_") + layer + "_host.h>"); });
        EXPECT_TRUE(is_platform) << line;
      }
      EXPECT_NE(line, "#pragma once");
    }
  }
}

TEST(Render, LineMarksPointAtTheTemplates) {
  const std::string text = rendered(golden_cases[1]);
  std::istringstream lines(text);
  std::string line, file;
  int number = 0, checked = 0;
  for (int actual = 1; std::getline(lines, line); ++actual, ++number) {
    if (line.starts_with("#line ")) {
      std::istringstream mark(line.substr(6));
      mark >> number >> file;
      file = file.substr(1, file.size() - 2);
      if (file == "softmax.cu") {
        EXPECT_EQ(number, actual + 1);
      }
      --number;
      continue;
    }
    if (!file.starts_with("templates/") || line.empty()) continue;
    std::istringstream original(std::string(TemplateSet::embedded().file(file.substr(10))));
    std::string expected;
    for (int i = 0; i < number; ++i) std::getline(original, expected);
    ASSERT_EQ(line, expected) << file << ":" << number;
    ++checked;
  }
  EXPECT_GT(checked, 300);
}

TEST(Render, HeadNamesProblemAndConfiguration) {
  const std::string head = rendered(golden_cases[1]).substr(0, 1200);
  for (const char* part : {"// softmax,", "cols = 32000, reads bf16, writes bf16",
                           "variant=block,threads=", "nvcc -arch=sm_90a -cubin", "minimum architecture: sm_80"})
    EXPECT_NE(head.find(part), std::string::npos) << part;
}

TEST(Render, HeadNamesTheMinimumArchitecture) {
  const auto least = [](const char* problem, const char* config) {
    const std::string text = rendered({"", "softmax_backward", problem, "sm_90a", config});
    const std::string before = "minimum architecture: ";
    const std::size_t begin = text.find(before) + before.size();
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  EXPECT_EQ(least("rows=4096,cols=1024", "variant=block,load=plain,store=plain,prefetch_blocks=0"), "sm_75");
  EXPECT_EQ(least("rows=4096,cols=1024", "variant=warp,load=plain,store=streaming,prefetch_blocks=0"), "sm_75");
  EXPECT_EQ(least("rows=4096,cols=1024", "variant=block,load=plain,store=evict_first,prefetch_blocks=0"), "sm_80");
  EXPECT_EQ(least("rows=4096,cols=100000", "variant=two_pass,load=plain,load_again=evict_first,store=plain"), "sm_80");
  EXPECT_EQ(least("rows=4096,cols=24000", "variant=hybrid,load=plain,store=plain"), "sm_80");  // asynchronous copies
  EXPECT_EQ(least("rows=4096,cols=24000", "variant=cluster,load=plain,store=plain"), "sm_90");
  EXPECT_EQ(least("rows=4096,cols=1024", "variant=block,load=plain,store=plain,prefetch_blocks=1"), "sm_90");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A generated source is read: it holds what its kernels reach and little else. Decoding has 90 lines for the view of K and V
// that a paged cache replaces and 10 for splits of a given size, and losses have 20 for lse_low.
TEST(Render, StaysWithinItsBudgetOfLines) {
  struct Budget {
    const char *op, *problem;
    std::size_t lines;
  };
  const Budget budgets[] = {{"softmax", "rows=4096,cols=32000,dtype=bf16", 1350},
                            {"cross_entropy", "rows=8192,cols=32000,dtype=bf16", 1795},
                            {"cross_entropy", "rows=4096,cols=128256,dtype=bf16", 1825},  // two kernels
                            {"attention", "batch=2,heads=16,seq_q=4096,head_dim=128,dtype=bf16", 2420},
                            {"attention", "batch=2,heads=16,seq_q=1,seq_kv=4096,head_dim=128,dtype=bf16", 2000}};
  for (const Budget& budget : budgets) {
    const ParsedProblemPtr problem = find_op(budget.op).parse({budget.op, parse_fields(budget.problem, "problem")});
    const std::string source = render(*problem, problem->default_config(generic_device(parse_arch("sm_90a"))));
    EXPECT_LE(lines_of(source).size(), budget.lines) << budget.op << " " << budget.problem;
    EXPECT_GT(lines_of(source).size(), budget.lines / 2) << budget.op << " " << budget.problem;
  }
}

// The head says where the kernel is; constants and entry points come last.
TEST(Render, TheHeadNamesTheLinesOfTheKernelAndOfItsConstants) {
  const std::regex kernel_line("//   kernel +(\\w+) in line ([0-9]+); constants and entry points from line ([0-9]+)");
  for (const GoldenCase& c : golden_cases) {
    const std::vector<std::string> lines = lines_of(rendered(c));
    std::smatch found;
    const auto head =
        std::ranges::find_if(lines, [&](const std::string& line) { return std::regex_match(line, found, kernel_line); });
    ASSERT_NE(head, lines.end()) << c.name;
    EXPECT_LE(head - lines.begin(), 16) << c.name << ": a head of at most sixteen lines";
    const std::string name = found[1];
    const auto kernel = static_cast<std::size_t>(std::stoi(found[2])),
               constants = static_cast<std::size_t>(std::stoi(found[3]));
    EXPECT_NE(lines.at(kernel - 1).find(" void " + name + "("), std::string::npos) << c.name << ": " << lines.at(kernel - 1);
    EXPECT_EQ(lines.at(constants - 1).substr(0, 30), "// ---- This problem, this con") << c.name;
  }
}

TEST(Render, OnlyWhatTheKernelReachesIsThere) {
  const std::string block = rendered(golden_cases[1]), cluster = rendered(golden_cases[6]);
  for (const char* name : {"struct ClusterGroup", "struct PreciseExponential", "log_of_one_plus(", "struct AddMask",
                           "struct HybridRow", "struct StraightEdges"})
    EXPECT_EQ(block.find(name), std::string::npos) << name;
  for (const char* name : {"struct ClusterGroup", "struct AddMask", "struct FastExponential", "struct BranchedEdges"})
    EXPECT_NE(cluster.find(name), std::string::npos) << name;
}

TEST(Render, TheKernelAloneIsThePartThatIsSpecialized) {
  const GoldenCase& c = golden_cases[1];
  const auto [problem, config] = parsed(c);
  const std::string kernel = KernelSource(*problem, config).render_kernel(), whole = rendered(c);
  for (const char* text :
       {"softmax_resident(const RowParams& params)", "static constexpr tunesmith::RowShape shape", "__global__"})
    EXPECT_NE(kernel.find(text), std::string::npos) << text;
  EXPECT_EQ(kernel.find("fused_multiply_add(float"), std::string::npos);
  EXPECT_LT(kernel.size(), whole.size() / 4);
}

TEST(Render, FilesHoldTheSameCode) {
  for (const GoldenCase& c : golden_cases) {
    const auto [problem, config] = parsed(c);
    const auto code_of = [](const std::string& text) {
      std::multiset<std::string> code;
      for (const std::string& line : lines_of(text))
        if (!line.empty() && !line.starts_with("#include \"") && !line.starts_with("#line") && line != "#pragma once" &&
            !line.starts_with("//") && line.find("namespace tunesmith") == std::string::npos)
          code.insert(line);
      return code;
    };
    std::string all;
    std::set<std::string> known;
    const std::vector<SourceFile> files = KernelSource(*problem, config).render_files();
    for (const SourceFile& file : files) {
      all += file.content;
      known.insert(file.name);
    }
    EXPECT_EQ(files.back().name, std::string(c.op) + ".cu");
    EXPECT_EQ(code_of(all), code_of(rendered(c))) << c.name;
    for (const std::string& line : lines_of(all))
      if (line.starts_with("#include \"")) {
        EXPECT_TRUE(known.contains(line.substr(10, line.size() - 11))) << line;
      }
  }
}

TEST(Templates, FolderReplacesTheEmbeddedOnes) {
  const TemplateSet folder = TemplateSet::from_folder(source_folder() / "templates");
  EXPECT_EQ(folder.files(), TemplateSet::embedded().files());
  EXPECT_EQ(rendered(golden_cases[0], folder), rendered(golden_cases[0]));
}

TEST(Templates, ErrorsNameAMissingFolderOrFile) {
  EXPECT_THROW(TemplateSet::from_folder("/nonexistent/templates"), Error);
  try {
    TemplateSet::embedded().file("softmax/softmax_magic.cuh");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("softmax_magic.cuh"), std::string::npos);
  }
}

}  // namespace
}  // namespace tunesmith
