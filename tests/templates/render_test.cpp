// Rendering: pure, self-contained, equal to the golden sources.

#include "templates/render.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

#include "tests/support/source_folder.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

struct Case {
  const char *name, *op, *problem, *arch, *config;
};
// Every main template, every kind of cooperative group, and the options.
const Case golden_cases[] = {
    {"softmax_warp_f32_1024", "softmax", "rows=4096,cols=1024", "sm_90a",
     "variant=warp,threads=128,lanes=32,load=no_allocate,store=streaming"},
    {"softmax_block_bf16_32000", "softmax", "rows=4096,cols=32000,dtype=bf16", "sm_90a",
     "variant=block,threads=512,min_blocks=2,registers=packed,load=evict_last,store=plain"},
    {"softmax_block_f16_to_f32_781", "softmax", "rows=64,cols=781,dtype=f16,out_dtype=f32", "sm_75",
     "variant=block,threads=128,min_blocks=8,registers=float32,load=plain,store=plain"},
    {"log_softmax_warp_pairs_bf16_781", "log_softmax", "rows=4096,cols=781,dtype=bf16", "sm_90a",
     "variant=warp,threads=64,lanes=32,access=pairs,load=plain,store=plain"},
    {"softmax_two_pass_f32_262144", "softmax", "rows=16,cols=262144", "sm_90a",
     "variant=two_pass,threads=1024,unroll=4,blocks_per_sm=0,load=evict_last,load_again=evict_first,store=evict_first"},
    {"log_softmax_split_f32_1048576", "log_softmax", "rows=1,cols=1048576", "sm_90a",
     "variant=split,threads=256,unroll=4,blocks_per_row=256,load=plain,load_again=plain,store=plain"},
    {"softmax_cluster_attention_f16_4096", "softmax",
     "rows=32768,cols=4096,dtype=f16,scale=0.125,causal=1,valid_cols=1,valid_cols_group=1024,mask=add,mask_dtype=bf16,safe="
     "1",
     "sm_90a",
     "variant=cluster,threads=256,blocks_per_row=2,register_vectors=1,min_blocks=2,registers=float32,load=plain,store="
     "plain"},
    {"softmax_pipeline_bf16_131072", "softmax", "rows=4096,cols=131072,dtype=bf16", "sm_90a",
     "variant=pipeline,threads=512,blocks_per_row=4,stages=13,chunk_bytes=16384,ahead=1,load=evict_last,store=plain"},
    {"log_softmax_backward_pipeline_f32_131072", "log_softmax_backward", "rows=4096,cols=131072,scale=0.5", "sm_90a",
     "variant=pipeline,threads=256,blocks_per_row=16,stages=13,chunk_bytes=8192,ahead=1,load=evict_last,store=plain"},
    {"softmax_backward_grid_f16_262144", "softmax_backward", "rows=16,cols=262144,dtype=f16", "sm_90a",
     "variant=grid,threads=512,blocks_per_row=16,register_vectors=2,min_blocks=1,registers=packed,load=plain,store=plain"},
    {"log_softmax_backward_two_pass_f32_100000", "log_softmax_backward", "rows=4096,cols=100000,mask=keep,in_place=1",
     "sm_90a", "variant=two_pass,threads=512,unroll=2,blocks_per_sm=1,load=evict_last,load_again=evict_first,store=plain"},
    {"softmax_strided_split_bf16_128256", "softmax", "rows=16,cols=128256,inner=4,dtype=bf16", "sm_90a",
     "variant=split,threads=256,lanes=1,unroll=8,blocks_per_row=16,load=evict_last,load_again=evict_first,store=plain"},
    {"log_softmax_backward_strided_f32_1000", "log_softmax_backward", "rows=32,cols=1000,inner=3136,scale=0.5,safe=1",
     "sm_90a", "variant=resident,threads=512,lanes=4,min_blocks=1,load=plain,store=plain"},
    {"cross_entropy_strided_bf16_21", "cross_entropy",
     "rows=8,cols=21,inner=262144,dtype=bf16,gradient=separate,argmax=1,mark_ignored=1,dloss=scalar", "sm_90a",
     "variant=resident,threads=64,lanes=64,min_blocks=8,load=plain,store=plain"},
    {"cross_entropy_strided_split_f32_128256", "cross_entropy",
     "rows=16,cols=128256,inner=4,reduction=none,label_smoothing=0.1,weight=1", "sm_90a",
     "variant=split,threads=256,lanes=1,unroll=8,blocks_per_row=16,load=evict_last,load_again=evict_first,store=plain"},
    {"cross_entropy_backward_strided_f16_150", "cross_entropy_backward", "rows=16,cols=150,inner=4096,dtype=f16,dlse=1",
     "sm_90a", "variant=tiles,threads=256,lanes=256,unroll=8,load=plain,store=plain"},
    {"softmax_block_f64_1000", "softmax", "rows=64,cols=1000,dtype=f64,scale=0.5", "sm_90a",
     "variant=block,threads=128,min_blocks=4,registers=float32,load=plain,store=plain"},
    {"cross_entropy_block_f64_1000", "cross_entropy",
     "rows=64,cols=1000,dtype=f64,gradient=separate,label_smoothing=0.1,weight=1,softcap=20,argmax=1", "sm_90a",
     "variant=block,threads=128,min_blocks=2,registers=float32,load=plain,store=plain"},
    {"cross_entropy_backward_f64_1000", "cross_entropy_backward", "rows=64,cols=1000,dtype=f64,dlse=1,nll=1", "sm_90a",
     "variant=tiles,threads=128,unroll=2,load=plain,store=plain"},
    {"rms_norm_warp_bf16_1024", "rms_norm", "rows=4096,cols=1024,dtype=bf16,weight=1,weight_dtype=f32,rstd=1", "sm_90a",
     "variant=warp,threads=128,lanes=32,load=no_allocate,store=streaming"},
    {"rms_norm_block_f64_1000", "rms_norm", "rows=64,cols=1000,dtype=f64,weight=1,rstd=1", "sm_90a",
     "variant=block,threads=128,min_blocks=4,registers=float32,load=plain,store=plain"},
    {"rms_norm_split_f32_1000001", "rms_norm", "rows=1,cols=1000001,weight=1", "sm_90a",
     "variant=split,threads=256,unroll=4,blocks_per_row=64,load=plain,load_again=plain,store=plain"},
    {"row_program_add_norm_bf16_4096", "row_program",
     "rows=4096,cols=4096,dtype=bf16,numbers=eps=1e-5,in_place=res=r,program="
     "in x%2C r : float[row%2C col]%0A"
     "in w : f32[col]%0A"
     "num eps : f32 = 1e-6%0A"
     "h : float = x + r%0A"
     "sum ss = h * h%0A"
     "y = h * rsqrt(ss / cols + eps) * w%0A"
     "max a = abs(y)%0A"
     "q = max(a%2C 1e-12) / 448%0A"
     "out res : float[row%2C col] = h%0A"
     "out scale : f32[row] = q%0A"
     "out z : e4m3[row%2C col] = y / q%0A",
     "sm_90a", "variant=block,threads=256,min_blocks=4,registers=packed,load=evict_last,store=plain"},
    {"row_program_add_norm_f64_1000", "row_program",
     "rows=64,cols=1000,numbers=eps=1e-5,program="
     "in x : f64[row%2C col]%0A"
     "in r : bf16[row%2C col]%0A"
     "in w : f32[col]%0A"
     "in scale : f32[row]%0A"
     "num eps : f64 = 1e-6%0A"
     "h = x + r * scale%0A"
     "mean ms = h * h%0A"
     "out y : f64[row%2C col] = h * rsqrt(ms + eps) * w%0A"
     "out z : bf16[row%2C col] = 0.7 * h%0A",
     "sm_90a", "variant=block,threads=128,min_blocks=2,registers=packed,load=plain,store=plain"},
    {"row_program_sums_f64_1000", "row_program",
     "rows=64,cols=1000,dtype=f64,program="
     "in x : float[row%2C col]%0A"
     "lse l = x%0A"
     "out y : float[row%2C col] = x - l%0A"
     "colsum c : f64[col] = exp(x - l)%0A",
     "sm_90a",
     "variant=persistent,threads=128,blocks_per_row=1,stages=2,batch=2,keep_columns=0,min_blocks=1,load=plain,store=plain"},
    {"row_program_totals_bf16_4096", "row_program",
     "rows=4096,cols=4096,dtype=bf16,program="
     "in x : float[row%2C col]%0A"
     "in t : i32[row]%0A"
     "lse l = x%0A"
     "sum picked = select(col == t%2C x%2C 0)%0A"
     "colsum loss : f32[] = (l - picked) / rows%0A",
     "sm_90a", "variant=block,threads=256,min_blocks=2,registers=packed,load=plain,store=plain"},
    {"row_program_softmax_f32_262144", "row_program",
     "rows=16,cols=262144,program="
     "in x : float[row%2C col]%0A"
     "max m = x%0A"
     "e = exp(x - m)%0A"
     "sum s = e%0A"
     "out y : float[row%2C col] = e / s%0A",
     "sm_90a", "variant=two_pass,threads=1024,unroll=4,blocks_per_sm=0,load=plain,load_again=plain,store=plain"},
    {"row_program_top_columns_bf16_256", "row_program",
     "rows=4096,cols=256,dtype=bf16,program="
     "in x : float[row%2C col]%0A"
     "topk[6] v%2C i = x%0A"
     "sum s = exp(v)%0A"
     "out weight : f32[row%2C 6] = exp(v) / s%0A"
     "out column : i32[row%2C 6] = i%0A",
     "sm_90a", "variant=warp,threads=128,lanes=32,load=plain,store=plain"},
    {"row_program_strided_bf16_1000", "row_program",
     "rows=64,cols=1000,inner=196,dtype=bf16,program="
     "in x : float[row%2C col]%0A"
     "in w : f32[col]%0A"
     "lse l = x * w%0A"
     "out y : float[row%2C col] = x * w - l%0A",
     "sm_90a", "variant=resident,threads=256,lanes=8,min_blocks=1,load=plain,store=plain"},
    {"row_program_sums_bf16_4096", "row_program",
     "rows=4096,cols=4096,dtype=bf16,program="
     "in x : float[row%2C col]%0A"
     "in w : float[col]%0A"
     "in dy : float[row%2C col]%0A"
     "num eps : f32 = 1e-6%0A"
     "mean ms = x * x%0A"
     "t = rsqrt(ms + eps)%0A"
     "sum d = dy * w * x%0A"
     "out dx : float[row%2C col] = dy * w * t - d / cols * t * t * t * x%0A"
     "colsum dw : float[col] = dy * x * t%0A",
     "sm_90a", "variant=block,threads=256,min_blocks=2,registers=packed,load=plain,store=plain"},
    {"row_program_sums_f32_1000000", "row_program",
     "rows=16,cols=1000000,program="
     "in x : float[row%2C col]%0A"
     "in w : float[col]%0A"
     "in dy : float[row%2C col]%0A"
     "num eps : f32 = 1e-6%0A"
     "mean ms = x * x%0A"
     "t = rsqrt(ms + eps)%0A"
     "sum d = dy * w * x%0A"
     "out dx : float[row%2C col] = dy * w * t - d / cols * t * t * t * x%0A"
     "colsum dw : float[col] = dy * x * t%0A",
     "sm_90a", "variant=two_pass,threads=1024,unroll=4,blocks_per_sm=0,load=plain,load_again=plain,store=plain"},
    {"row_program_persistent_bf16_32768", "row_program",
     "rows=1024,cols=32768,dtype=bf16,program="
     "in x : float[row%2C col]%0A"
     "in w : float[col]%0A"
     "mean ms = x * x%0A"
     "out y : float[row%2C col] = x * rsqrt(ms + 1e-6) * w%0A",
     "sm_90a",
     "variant=persistent,threads=512,blocks_per_row=2,stages=3,batch=1,keep_columns=1,min_blocks=1,load=plain,store=plain"},
    {"row_program_sums_persistent_f32_4096", "row_program",
     "rows=4096,cols=4096,program="
     "in x : float[row%2C col]%0A"
     "sum s = x * x%0A"
     "out y : float[row%2C col] = x * s%0A"
     "colsum c : f32[col] = x * s%0A",
     "sm_90a",
     "variant=persistent,threads=256,blocks_per_row=1,stages=2,batch=4,keep_columns=0,min_blocks=1,load=plain,store=plain"},
    {"cross_entropy_staged_bf16_31", "cross_entropy", "rows=4096,cols=31,dtype=bf16,reduction=none,gradient=in_place",
     "sm_90a", "variant=warp,threads=64,lanes=1,access=staged,rounds=4,load=plain,store=plain"},
    {"softmax_backward_staged_f32_77", "softmax_backward", "rows=4096,cols=77", "sm_90a",
     "variant=warp,threads=64,lanes=4,access=staged,rounds=2,load=plain,store=plain"},
    {"row_program_staged_bf16_35", "row_program",
     "rows=4096,cols=35,dtype=bf16,program="
     "in gate%2C up : float[row%2C col]%0A"
     "out y : float[row%2C col] = silu(gate) * up%0A",
     "sm_90a", "variant=warp,threads=64,lanes=2,access=staged,rounds=4,load=plain,store=plain"},
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

TEST(Render, DependsOnlyOnSpecializedFields) {
  Case c = golden_cases[0];
  const std::string text = rendered(c);
  c.problem = "rows=100000,cols=1024,x_row_stride=2048";
  EXPECT_EQ(rendered(c), text);
  c.problem = "rows=4096,cols=1028";
  EXPECT_NE(rendered(c), text);
}

// Golden files omit the device code, so that changing a kernel does not change every golden file. Set
// TUNESMITH_UPDATE_GOLDEN to regenerate them.
TEST(Render, MatchesTheGoldenSources) {
  for (const Case& c : golden_cases) {
    std::string text = rendered(c);
    const std::size_t begin = text.find("#line 1 "), end = text.rfind("#line ");
    ASSERT_NE(begin, end);
    text = text.substr(0, begin) + "... device code ...\n" + text.substr(text.find('\n', end) + 1);
    const std::size_t digest = text.find(".cuh ") + 5;
    text.replace(digest, 32, "<digest>");
    text = std::regex_replace(text, std::regex("line [0-9]+"), "line <number>");
    const std::filesystem::path path = source_folder() / "tests/templates/golden" / (std::string(c.name) + ".cu");
    if (std::getenv("TUNESMITH_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
    EXPECT_EQ(text, read(path)) << path;
  }
}

// scripts/compare_kernels.py compiles these.
TEST(Render, KernelVariantsAreValid) {
  std::ifstream lines(source_folder() / "tests/templates/kernel_variants.txt");
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    std::string op, arch, config, problem;
    words >> op >> arch >> config;
    std::getline(words >> std::ws, problem);
    EXPECT_NO_THROW(rendered({"", op.c_str(), problem.c_str(), arch.c_str(), config.c_str()})) << line;
    ++count;
  }
  EXPECT_GE(count, 100U);
}

TEST(Render, GoldenFilesCoverEveryMainTemplate) {
  std::set<std::string> kept, named, main_templates;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() / "tests/templates/golden"))
    kept.insert(entry.path().stem().string());
  for (const Case& c : golden_cases) {
    named.insert(c.name);
    const std::string text = rendered(c);
    const std::string label = "templates       ";  // of the provenance comment
    const std::size_t begin = text.find(label) + label.size();
    main_templates.insert(text.substr(begin, text.find(' ', begin) - begin));
  }
  EXPECT_EQ(kept, named);
  EXPECT_EQ(main_templates, (std::set<std::string>{"softmax/resident.cuh",
                                                   "softmax/cluster.cuh",
                                                   "softmax/resident_f64.cuh",
                                                   "softmax/tiled.cuh",
                                                   "softmax/pipeline.cuh",
                                                   "softmax/backward_pipeline.cuh",
                                                   "softmax/backward_resident.cuh",
                                                   "softmax/backward_tiled.cuh",
                                                   "softmax/strided.cuh",
                                                   "softmax/strided_backward.cuh",
                                                   "cross_entropy/strided.cuh",
                                                   "cross_entropy/resident_f64.cuh",
                                                   "cross_entropy/backward_f64.cuh",
                                                   "cross_entropy/strided_backward.cuh",
                                                   "cross_entropy/staged.cuh",
                                                   "softmax/backward_staged.cuh",
                                                   "row_program/staged.cuh",
                                                   "rms_norm/resident.cuh",
                                                   "rms_norm/resident_f64.cuh",
                                                   "rms_norm/tiled.cuh",
                                                   "row_program/resident.cuh",
                                                   "row_program/resident_f64.cuh",
                                                   "row_program/sums_persistent_f64.cuh",
                                                   "row_program/tiled.cuh",
                                                   "row_program/sums_resident.cuh",
                                                   "row_program/sums_tiled.cuh",
                                                   "row_program/totals_resident.cuh",
                                                   "row_program/persistent.cuh",
                                                   "row_program/sums_persistent.cuh",
                                                   "row_program/strided.cuh"}));
}

TEST(Render, IsOneSelfContainedUnit) {
  std::vector<std::string> sources = {TemplateSet::embedded().flatten("device/matrix.cuh")};
  for (const Case& c : golden_cases) sources.push_back(rendered(c));
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

// A generated source is read: it holds what its kernels reach and little else.
TEST(Render, StaysWithinItsBudgetOfLines) {
  struct Budget {
    const char *op, *problem;
    std::size_t lines;
  };
  const Budget budgets[] = {{"softmax", "rows=4096,cols=32000,dtype=bf16", 1350},
                            {"cross_entropy", "rows=8192,cols=32000,dtype=bf16", 1760},
                            {"cross_entropy", "rows=4096,cols=128256,dtype=bf16", 1800},  // two kernels
                            {"attention", "batch=2,heads=16,seq_q=4096,head_dim=128,dtype=bf16", 2400},
                            {"attention", "batch=2,heads=16,seq_q=1,seq_kv=4096,head_dim=128,dtype=bf16", 1800}};
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
  for (const Case& c : golden_cases) {
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
  const Case& c = golden_cases[1];
  const ParsedProblemPtr problem = find_op(c.op).parse({c.op, parse_fields(c.problem, "problem")});
  const Config config =
      problem->complete_config(generic_device(parse_arch(c.arch)), Config{parse_fields(c.config, "config")});
  const std::string kernel = render_kernel(*problem, config), whole = rendered(c);
  for (const char* text :
       {"softmax_resident(const RowParams& params)", "static constexpr tunesmith::RowShape shape", "__global__"})
    EXPECT_NE(kernel.find(text), std::string::npos) << text;
  EXPECT_EQ(kernel.find("fused_multiply_add(float"), std::string::npos);
  EXPECT_LT(kernel.size(), whole.size() / 4);
}

TEST(Render, FilesHoldTheSameCode) {
  for (const Case& c : golden_cases) {
    const ParsedProblemPtr problem = find_op(c.op).parse({c.op, parse_fields(c.problem, "problem")});
    const Config config =
        problem->complete_config(generic_device(parse_arch(c.arch)), Config{parse_fields(c.config, "config")});
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
    const std::vector<SourceFile> files = render_files(*problem, config);
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
