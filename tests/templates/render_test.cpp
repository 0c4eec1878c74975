// Rendering: pure, self-contained, equal to the golden sources.

#include "templates/render.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "tunesmith/error.h"

namespace tunesmith {
namespace {

struct Case {
  const char *name, *op, *problem, *arch, *config;
};
// Every main template, every team, and the options.
const Case golden_cases[] = {
    {"softmax_warp_f32_1024", "softmax", "rows=4096,cols=1024", "sm_90a",
     "variant=warp,threads=128,lanes=32,load=no_allocate,store=streaming"},
    {"softmax_block_bf16_32000", "softmax", "rows=4096,cols=32000,dtype=bf16", "sm_90a",
     "variant=block,threads=512,min_blocks=2,registers=packed,load=evict_last,store=plain"},
    {"softmax_block_f16_to_f32_781", "softmax", "rows=64,cols=781,dtype=f16,out_dtype=f32", "sm_75",
     "variant=block,threads=128,min_blocks=8,registers=float32,load=plain,store=plain"},
    {"log_softmax_warp_pairs_bf16_781", "log_softmax", "rows=4096,cols=781,dtype=bf16", "sm_90a",
     "variant=warp,threads=64,lanes=32,access=pairs,load=plain,store=plain"},
    {"softmax_online_f32_262144", "softmax", "rows=16,cols=262144", "sm_90a",
     "variant=online,threads=1024,unroll=4,blocks_per_sm=0,load=evict_last,load_again=evict_first,store=evict_first"},
    {"log_softmax_split_f32_1048576", "log_softmax", "rows=1,cols=1048576", "sm_90a",
     "variant=split,threads=256,unroll=4,blocks_per_row=256,load=plain,load_again=plain,store=plain"},
    {"softmax_cluster_attention_f16_4096", "softmax",
     "rows=32768,cols=4096,dtype=f16,scale=0.125,causal=1,valid_cols=1,valid_cols_group=1024,mask=add,mask_dtype=bf16,safe="
     "1",
     "sm_90a",
     "variant=cluster,threads=256,blocks_per_row=2,register_vectors=1,min_blocks=2,registers=float32,load=plain,store="
     "plain"},
    {"softmax_backward_grid_f16_262144", "softmax_backward", "rows=16,cols=262144,dtype=f16", "sm_90a",
     "variant=grid,threads=512,blocks_per_row=16,register_vectors=2,min_blocks=1,registers=packed,load=plain,store=plain"},
    {"log_softmax_backward_online_f32_100000", "log_softmax_backward", "rows=4096,cols=100000,mask=keep,in_place=1",
     "sm_90a", "variant=online,threads=512,unroll=2,blocks_per_sm=1,load=evict_last,load_again=evict_first,store=plain"},
};

std::string rendered(const Case& c, const TemplateSet& templates = TemplateSet::embedded()) {
  const Op& op = find_op(c.op);
  const Problem problem = op.normalize({c.op, parse_fields(c.problem, "problem")});
  const DeviceInfo device = generic_device(parse_arch(c.arch));
  return render(*op.parse(problem), op.parse(problem)->complete_config(device, Config{parse_fields(c.config, "config")}),
                templates);
}

std::string read(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream content;
  content << stream.rdbuf();
  return content.str();
}

TEST(Render, IsDeterministic) {
  for (const Case& c : golden_cases) EXPECT_EQ(rendered(c), rendered(c)) << c.name;
}

TEST(Render, DependsOnlyOnWhatTheKernelIsSpecializedFor) {
  Case c = golden_cases[0];
  const std::string text = rendered(c);
  c.problem = "rows=100000,cols=1024,x_row_stride=2048";
  EXPECT_EQ(rendered(c), text);
  c.problem = "rows=4096,cols=1028";
  EXPECT_NE(rendered(c), text);
}

// The device part of the golden files is the templates themselves; what is kept and compared is the text around them, so
// that a change of a kernel does not rewrite every golden file. Set TUNESMITH_UPDATE_GOLDEN to write them anew.
TEST(Render, MatchesTheGoldenSources) {
  for (const Case& c : golden_cases) {
    std::string text = rendered(c);
    const std::size_t begin = text.find("#line 1 "), end = text.rfind("#line ");
    ASSERT_NE(begin, end);
    text = text.substr(0, begin) + "... device code ...\n" + text.substr(text.find('\n', end) + 1);
    const std::size_t digest = text.find(".cuh ") + 5;
    text.replace(digest, 32, "<digest>");
    const std::filesystem::path path =
        std::filesystem::path(TUNESMITH_SOURCE_DIR) / "tests/templates/golden" / (std::string(c.name) + ".cu");
    if (std::getenv("TUNESMITH_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
    EXPECT_EQ(text, read(path)) << path;
  }
}

TEST(Render, GoldenFilesAreTheCasesAndCoverEveryMainTemplate) {
  std::set<std::string> kept, named, main_templates;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TUNESMITH_SOURCE_DIR) / "tests/templates/golden"))
    kept.insert(entry.path().stem().string());
  for (const Case& c : golden_cases) {
    named.insert(c.name);
    const std::string text = rendered(c);
    const std::size_t begin = text.find("softmax/");
    main_templates.insert(text.substr(begin, text.find(' ', begin) - begin));
  }
  EXPECT_EQ(kept, named);
  EXPECT_EQ(main_templates, (std::set<std::string>{"softmax/held.cuh", "softmax/tiled.cuh", "softmax/backward_held.cuh",
                                                   "softmax/backward_tiled.cuh"}));
}

TEST(Render, IsOneSelfContainedUnit) {
  std::vector<std::string> sources = {TemplateSet::embedded().flatten("device/matrix.cuh")};
  for (const Case& c : golden_cases) sources.push_back(rendered(c));
  for (const std::string& source : sources) {
    std::istringstream lines(source);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_FALSE(line.starts_with("#include \"")) << line;
      if (line.starts_with("#include")) {
        EXPECT_TRUE(line == "#include <tunesmith_platform_host.h>" || line == "#include <tunesmith_matrix_host.h>") << line;
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
    std::istringstream original(TemplateSet::embedded().file(file.substr(10)));
    std::string expected;
    for (int i = 0; i < number; ++i) std::getline(original, expected);
    ASSERT_EQ(line, expected) << file << ":" << number;
    ++checked;
  }
  EXPECT_GT(checked, 300);
}

TEST(Render, ConfigurationAndProblemAreNamedAtTheTop) {
  const std::string head = rendered(golden_cases[1]).substr(0, 800);
  for (const char* part : {"// softmax,", "cols = 32000, reads bf16, writes bf16",
                           "variant=block,threads=", "nvcc -arch=sm_90a -cubin", "another architecture from sm_80"})
    EXPECT_NE(head.find(part), std::string::npos) << part;
}

TEST(Render, SaysTheLeastArchitectureOfWhatAConfigurationUses) {
  const auto least = [](const char* problem, const char* config) {
    const std::string text = rendered({"", "softmax_backward", problem, "sm_90a", config});
    const std::string before = "another architecture from ";
    const std::size_t begin = text.find(before) + before.size();
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  EXPECT_EQ(least("rows=4096,cols=1024", "variant=block,load=plain,store=plain"), "sm_75");
  EXPECT_EQ(least("rows=4096,cols=1024", "variant=warp,load=plain,store=streaming"), "sm_75");
  EXPECT_EQ(least("rows=4096,cols=1024", "variant=block,load=plain,store=evict_first"), "sm_80");
  EXPECT_EQ(least("rows=4096,cols=100000", "variant=online,load=plain,load_again=evict_first,store=plain"), "sm_80");
  EXPECT_EQ(least("rows=4096,cols=24000", "variant=hybrid,load=plain,store=plain"), "sm_80");  // asynchronous copies
  EXPECT_EQ(least("rows=4096,cols=24000", "variant=cluster,load=plain,store=plain"), "sm_90");
}

TEST(Templates, FolderReplacesTheEmbeddedOnes) {
  const TemplateSet folder = TemplateSet::from_folder(std::filesystem::path(TUNESMITH_SOURCE_DIR) / "templates");
  EXPECT_EQ(folder.files(), TemplateSet::embedded().files());
  EXPECT_EQ(rendered(golden_cases[0], folder), rendered(golden_cases[0]));
}

TEST(Templates, MissingFolderAndFileAreNamed) {
  EXPECT_THROW(TemplateSet::from_folder("/nonexistent/templates"), Error);
  try {
    TemplateSet::embedded().file("softmax/softmax_magic.cuh");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("softmax_magic.cuh"), std::string::npos);
  }
}

TEST(Templates, DigestFollowsEveryIncludedLine) {
  const TemplateSet& set = TemplateSet::embedded();
  EXPECT_EQ(set.digest("softmax/held.cuh").size(), 32U);
  EXPECT_NE(set.digest("softmax/held.cuh"), set.digest("softmax/tiled.cuh"));
  // A copy with one changed line in a file that is included two levels down.
  const auto folder = std::filesystem::temp_directory_path() / "tunesmith-render-test";
  std::filesystem::remove_all(folder);
  for (const auto& [name, content] : set.files()) {
    std::filesystem::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << content << (name == "device/types.cuh" ? "// changed\n" : "");
  }
  EXPECT_NE(TemplateSet::from_folder(folder).digest("softmax/held.cuh"), set.digest("softmax/held.cuh"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tunesmith
