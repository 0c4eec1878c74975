// Generated sources of row programs: NVRTC compiles them for every architecture, and a resident row is read once.

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <utility>

#include "tests/support/source_compilation.h"
#include "tests/templates/row_program/op_cases.h"

namespace tunesmith {
namespace {

using test::archs;
using test::count_of;

class RowProgramNvrtc : public test::SourceCompilation {};

// Each of the templates for sums over rows and columns.
TEST_F(RowProgramNvrtc, SumsOfOneElementCompile) {
  std::vector<Source> sources;
  const auto add = [&](const char* arch_name, const char* program, const char* fields, const char* config) {
    const Arch arch = parse_arch(arch_name);
    const auto cases = test::row_program_cases(test::row_program_text(program), fields, generic_device(arch), {config});
    ASSERT_EQ(cases.size(), 1U) << config;
    sources.push_back(source_of(cases[0], arch));
  };
  add("sm_75", "totals", "rows=64,cols=4096,dtype=bf16", "variant=block");
  add("sm_90a", "totals", "rows=64,cols=4096,dtype=bf16", "variant=cluster");
  add("sm_90a", "total_alone", "rows=64,cols=4096,dtype=bf16", "variant=persistent");
  add("sm_80", "total_alone", "rows=64,cols=50000", "variant=two_pass");
  add("sm_90a", "total_alone", "rows=64,cols=4096,dtype=f64", "variant=two_pass");
  add("sm_80", "totals", "rows=64,cols=96,inner=196", "variant=resident");
  add("sm_90a", "total_alone", "rows=64,cols=96,inner=196,dtype=f64", "variant=split");
  compile_covering(sources);
  // nvcc compiles them as C++17.
  if (!has_nvcc()) return;
  EXPECT_TRUE(nvcc_takes(sources.at(1), "-arch=sm_90a -cubin"));
  EXPECT_TRUE(nvcc_takes(sources.at(5), "-arch=sm_90a -cubin"));
}

// Vectors where positions are adjacent and aligned in all arrays, else elements; each is read and written once.
TEST_F(RowProgramNvrtc, AccessesToArraysOfAnyStrides) {
  const Arch arch = parse_arch("sm_90a");
  const auto ptx_of_case = [&](const char* program, const char* fields) {
    const auto cases = test::row_program_cases(test::row_program_text(program), fields, generic_device(arch),
                                               {"variant=resident,threads=256,lanes=8,load=plain,store=plain"});
    return ptx_of(source_of(cases.at(0), arch));
  };
  // Of 32 threads for a position, each has 3 of the 96 columns.
  const std::string aligned = ptx_of_case("softmax", "rows=64,cols=96,inner=196,col_strides=x=200,row_strides=x=19200");
  EXPECT_EQ(count_of(aligned, "ld.global.v4.b32"), 3U);
  EXPECT_EQ(count_of(aligned, "st.global.v4.b32"), 3U);
  for (const char* strides :
       {"col_strides=x=201,row_strides=x=19299", "col_strides=x=200,row_strides=x=19200,alignments=y=4",
        "col_strides=x=1,inner_strides=x=96", "col_strides=y=1,inner_strides=y=96"}) {
    const std::string ptx = ptx_of_case("softmax", (std::string("rows=64,cols=96,inner=196,") + strides).c_str());
    EXPECT_EQ(count_of(ptx, "ld.global."), 3U) << strides;
    EXPECT_EQ(count_of(ptx, "st.global."), 3U) << strides;
    EXPECT_EQ(count_of(ptx, ".v4."), 0U) << strides;
  }
}

// Lists of more than 32 columns are merged in the registers that there are.
TEST_F(RowProgramNvrtc, LongListsDoNotSpill) {
  std::vector<Source> sources;
  for (const char* arch_name : {"sm_75", "sm_90a"}) {
    const Arch arch = parse_arch(arch_name);
    for (const test::Case& c : test::row_program_cases(
             "in x : float[row, col]\ntopk[64] v, i = x\nout value : f32[row, 64] = v\nout column : i32[row, 64] = i\n",
             "rows=64,cols=4096,dtype=bf16", generic_device(arch),
             {"variant=block,threads=256,min_blocks=1,registers=packed"}))
      sources.push_back(source_of(c, arch));
  }
  ASSERT_EQ(sources.size(), 2U);
  compile_covering(sources, 0);
}

// A gate stores its values in pieces of 16 bytes, and needs no barrier where a warp has a row.
TEST_F(RowProgramNvrtc, AGateOfAWarpHasNoBarrier) {
  const Arch arch = parse_arch("sm_90a");
  const auto cases = test::row_program_cases(test::row_program_text("shipped topk_gate"), "rows=64,cols=256,dtype=bf16",
                                             generic_device(arch), {"variant=warp,lanes=32,load=plain"});
  const std::string ptx = ptx_of(source_of(cases.at(0), arch));
  EXPECT_EQ(count_of(ptx, "ld.global.v4.b32"), 1U);
  EXPECT_EQ(count_of(ptx, "st.global.v4.b32"), 4U);
  EXPECT_EQ(count_of(ptx, "bar.sync"), 0U);
  EXPECT_EQ(count_of(ptx, ".local"), 0U);
}

TEST_F(RowProgramNvrtc, ResidentRowsAreReadAndWrittenOnce) {
  const Arch arch = parse_arch("sm_90a");
  const auto ptx_of_case = [&](const char* program, const char* fields, const char* config) {
    const auto cases = test::row_program_cases(test::row_program_text(program), fields, generic_device(arch), {config});
    return ptx_of(source_of(cases.at(0), arch));
  };
  const std::string norm = ptx_of_case("add_rms_norm_e4m3", "rows=64,cols=16384,dtype=bf16",
                                       "variant=block,threads=512,load=streaming,store=plain");
  EXPECT_EQ(count_of(norm, "ld.global.cs.v4.b32"), 8U);  // 4 vectors of x and of r
  EXPECT_EQ(count_of(norm, "st.global.v4.b32"), 4U);     // res
  EXPECT_EQ(count_of(norm, "st.global.v2.b32"), 4U);     // z
  const std::string softmax =
      ptx_of_case("softmax", "rows=64,cols=8192", "variant=block,threads=256,load=streaming,store=plain");
  EXPECT_EQ(count_of(softmax, "ld.global."), 8U);
  EXPECT_EQ(count_of(softmax, "st.global."), 8U);
}

// A sum of one term is one load more, after the row's loads, and nothing for each column.
TEST_F(RowProgramNvrtc, ASumOfOneTermIsOneLoad) {
  const Arch arch = parse_arch("sm_90a");
  const std::string config = "variant=block,threads=64,min_blocks=18,registers=packed,load=streaming,store=plain";
  const auto source_with = [&](const char* zero) {
    const auto cases = test::row_program_cases(
        std::string("in x : float[row, col]\nin t : i32[row]\nlse l = x\nsum a = select(col == t, x, ") + zero +
            ")\nout loss : f32[row] = l - a\n",
        "rows=8192,cols=4096,dtype=bf16", generic_device(arch), {config.c_str()});
    return source_of(cases.at(0), arch);
  };
  const Source one_term = source_with("0"), all_terms = source_with("1e-9");
  const std::string ptx = ptx_of(one_term), of_all_terms = ptx_of(all_terms);
  EXPECT_EQ(count_of(ptx, "ld.global.cs.v4.b32"), 8U);
  EXPECT_EQ(count_of(ptx, "ld.global"), 10U);
  EXPECT_EQ(count_of(of_all_terms, "ld.global"), 9U);
  EXPECT_LT(ptx.rfind("ld.global.cs"), ptx.find("bar.warp.sync"));
  EXPECT_LT(ptx.find("bar.warp.sync"), ptx.rfind("ld.global"));
  EXPECT_LE(count_of(ptx, "setp.") + 64, count_of(of_all_terms, "setp."));
  compile_covering({one_term}, 0);
}

TEST_F(RowProgramNvrtc, SumsOfOneTermCompileForEveryArchitecture) {
  std::vector<Source> sources;
  std::size_t turn = 0;
  const std::string text =
      "in x : float[row, col]\nin i : i32[row, col]\nin w : bf16[col]\nin t : i32[row]\nin f : f32[row]\n"
      "argmax k = x\nsum a = select(col == t, exp(x * w), 0)\nsum b = select(f != col, 0, i)\n"
      "sum c = select(col == k, x, 0)\nout y : float[row, col] = (x - a) * b + c\n";
  for (const char* arch_name : archs) {
    const Arch arch = parse_arch(arch_name);
    for (const char* variant : {"warp,lanes=32", "block", "hybrid,threads=64,register_vectors=1", "cluster", "two_pass",
                                "persistent,threads=64,blocks_per_row=1,stages=2,batch=2,keep_columns=1", "grid"})
      for (const test::Case& c :
           test::row_program_cases(text, turn++ % 3 == 0 ? "rows=64,cols=1031,dtype=f16" : "rows=64,cols=1024,dtype=bf16",
                                   generic_device(arch), {(std::string("variant=") + variant).c_str()}))
        sources.push_back(source_of(c, arch));
    for (const char* variant : {"variant=resident", "variant=two_pass"})
      for (const test::Case& c : test::row_program_cases(text, "rows=2,cols=600,inner=34", generic_device(arch), {variant}))
        sources.push_back(source_of(c, arch));
  }
  EXPECT_GE(sources.size(), 7 * std::size(archs));
  compile_covering(sources);
  if (!has_nvcc()) return;
  EXPECT_TRUE(nvcc_takes(sources.at(1), "-arch=sm_75 -cubin"));
}

// Reductions of one stage share an exchange: as many barriers as one reduction has.
TEST_F(RowProgramNvrtc, ReductionsOfAStageShareAnExchange) {
  const Arch arch = parse_arch("sm_90a");
  const std::string x = "in x : float[row, col]\n", y = "out y : float[row, col] = x * s\n";
  const std::string one = x + "sum s = x * x\n" + y,
                    independent = x + "sum s = x * x\nmax m = x\n" + y + "out t : f32[row] = m\n",
                    dependent = x + "mean m = x\nsum s = (x - m) * (x - m)\n" + y;
  struct Exchange {
    const char *config, *barrier;
    std::size_t in_each;  ///< barriers of an exchange
  };
  for (const auto& [config, barrier, in_each] : {Exchange{"variant=block,threads=256,min_blocks=1", "bar.sync", 1},
                                                 {"variant=hybrid,threads=128,register_vectors=1", "bar.sync", 1},
                                                 {"variant=two_pass,threads=256,unroll=2", "bar.sync", 2},
                                                 {"variant=cluster,threads=256,blocks_per_row=2", "mbarrier.try_wait", 1},
                                                 {"variant=cluster,threads=256,blocks_per_row=2", "bar.sync", 1},
                                                 {"variant=warp,lanes=32", "bar.sync", 0}}) {
    const auto barriers = [&, config = config, barrier = barrier](const std::string& text) {
      const auto cases = test::row_program_cases(text, "rows=64,cols=2048,dtype=bf16", generic_device(arch), {config});
      return count_of(ptx_of(source_of(cases.at(0), arch)), barrier);
    };
    EXPECT_EQ(barriers(one), in_each) << config << " " << barrier;
    EXPECT_EQ(barriers(independent), in_each) << config << " " << barrier;
    EXPECT_EQ(barriers(dependent), 2 * in_each) << config << " " << barrier;
  }
}

TEST_F(RowProgramNvrtc, ResidentPositionsAreReadAndWrittenOnce) {
  const Arch arch = parse_arch("sm_90a");
  const auto accesses = [&](const char* program, const char* config) {
    const auto cases = test::row_program_cases(test::row_program_text(program), "rows=64,cols=96,inner=196,dtype=bf16",
                                               generic_device(arch), {config});
    const std::string ptx = ptx_of(source_of(cases.at(0), arch));
    return std::pair(count_of(ptx, "ld.global."), count_of(ptx, "st.global."));
  };
  using Accesses = std::pair<std::size_t, std::size_t>;
  // Of 32 threads for a position, each has 3 of the 96 columns; of 3 blocks with 16 of them, 2.
  const char* const resident = "variant=resident,threads=256,lanes=8";
  const char* const cluster = "variant=cluster,threads=64,lanes=4,blocks_per_row=3";
  EXPECT_EQ(accesses("softmax", resident), Accesses(3, 3));
  EXPECT_EQ(accesses("softmax", cluster), Accesses(2, 2));
  EXPECT_EQ(accesses("shipped layer_norm", resident), Accesses(9, 3));  // x, w and b
  EXPECT_EQ(accesses("shipped add_layer_norm", cluster), Accesses(8, 4));
  const Accesses two_pass = accesses("softmax", "variant=two_pass,threads=64,lanes=8,unroll=2");
  EXPECT_GE(two_pass.first, 2 * two_pass.second);  // once for the stage, once more for the results
}

}  // namespace
}  // namespace tunesmith
