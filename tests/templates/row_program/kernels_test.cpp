// Which kernels row programs have: default configurations of norms, sums and moments, loads of arrays [col].

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "templates/render.h"
#include "templates/row_program/language/parse.h"
#include "templates/row_program/passes/plain_sums.h"
#include "tests/templates/row_program/op_cases.h"
#include "tunesmith/tunesmith.h"

namespace tunesmith {
namespace {

ParsedProblemPtr parsed_program(const std::string& text, const std::string& fields) {
  return find_op("row_program").parse(test::row_program_problem(text, fields));
}

/// Expects that the text of the default configuration begins with `start`.
void expect_default(const char* program, const std::string& fields, const DeviceInfo& device, const char* start) {
  const std::string found = parsed_program(test::row_program_text(program), fields)->default_config(device).text();
  EXPECT_TRUE(found.starts_with(start)) << program << " " << fields << ": " << found;
}

// Up to 4096 columns, 32 values in a thread. Two blocks of 512 threads with 64 registers each fit. Programs that write bytes
// take more.
TEST(RowProgramKernels, NormsHaveTheThreadsOfTheFastestBlocks) {
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  for (const auto& [program, cols, start] :
       {std::tuple{"layer_norm", 32768, "variant=cluster,threads=128,blocks_per_row=2,"},
        {"layer_norm", 4096, "variant=block,threads=128,min_blocks=6,registers=float32,"},
        {"layer_norm", 8192, "variant=block,threads=128,min_blocks=4,registers=float32,"},
        {"layer_norm", 16384, "variant=block,threads=256,min_blocks="},
        {"shipped rms_norm_e4m3", 4096, "variant=block,threads=64,min_blocks="},
        {"shipped layer_norm_e4m3", 32768, "variant=block,threads=256,min_blocks="},
        {"shipped add_layer_norm", 16384, "variant=block,threads=256,min_blocks="},
        {"shipped add_layer_norm", 32768, "variant=cluster,threads=128,blocks_per_row=4,"}})
    expect_default(program, "rows=1024,cols=" + std::to_string(cols) + ",dtype=bf16", device, start);
}

// Of an H200: memory asks for more loads in flight than an H100's. Fastest of 30 to 100 configurations
// (row_program/NOTES.md, "Blocks of 96 bytes a thread").
TEST(RowProgramKernels, NormsHaveMoreLoadsInFlightOnFastMemory) {
  DeviceInfo device = generic_device(parse_arch("sm_90a"));
  device.memory_gb_per_s = 4800;
  for (const auto& [program, cols, start] :
       {std::tuple{"layer_norm", 1536, "variant=block,threads=64,min_blocks=12,registers=float32,"},
        {"layer_norm", 3001, "variant=block,threads=64,min_blocks=12,registers=packed,"},
        {"layer_norm", 4096, "variant=block,threads=128,min_blocks=6,registers=float32,"},
        {"layer_norm", 8192, "variant=block,threads=256,min_blocks=3,registers=float32,"},
        {"layer_norm", 10002, "variant=block,threads=256,min_blocks=3,registers=float32,access=pairs,"},
        {"layer_norm", 16384, "variant=block,threads=256,min_blocks=3,registers=packed,"},
        {"shipped rms_norm", 4096, "variant=block,threads=128,min_blocks=6,registers=packed,"},
        {"shipped rms_norm", 8192, "variant=block,threads=256,min_blocks=3,registers=packed,"},
        {"shipped layer_norm_e4m3", 4096, "variant=block,threads=64,min_blocks=8,registers=float32,"},
        {"shipped layer_norm_e4m3", 16384, "variant=block,threads=256,min_blocks=2,registers=float32,"},
        {"shipped layer_norm_i8_blocks", 1024, "variant=block,threads=32,min_blocks=25,"},
        {"shipped layer_norm_i8_blocks", 4096, "variant=block,threads=128,min_blocks=8,registers=packed,"},
        {"shipped layer_norm_i8_blocks", 32768, "variant=block,threads=512,min_blocks=1,registers=packed,"},
        {"shipped rms_norm_e4m3", 4096, "variant=block,threads=128,min_blocks=4,registers=float32,"},
        {"shipped add_rms_norm", 16384, "variant=block,threads=256,min_blocks=2,registers=packed,"},
        {"shipped add_layer_norm", 16384, "variant=block,threads=256,min_blocks=2,registers=packed,"}})
    expect_default(program, "rows=8192,cols=" + std::to_string(cols) + ",dtype=bf16", device, start);
}

TEST(RowProgramKernels, TuningTriesThemOnEveryDevice) {
  const ParsedProblemPtr problem = parsed_program(test::row_program_text("layer_norm"), "rows=4096,cols=8192,dtype=bf16");
  const std::vector<Config> space = problem->search_space(generic_device(parse_arch("sm_90a")), Effort::quick);
  EXPECT_TRUE(std::ranges::any_of(space, [](const Config& config) {
    return config.text().starts_with("variant=block,threads=256,min_blocks=3,registers=float32,load=plain,");
  }));
}

TEST(RowProgramKernels, MomentsAreOneExchangeBetweenBlocks) {
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  const auto has = [&](const std::string& reduction, const std::string& dtype, const std::string& config) {
    const ParsedProblemPtr problem =
        parsed_program(test::row_program_text("shipped layer_norm"), "rows=128,cols=65536,dtype=" + dtype);
    return render(*problem, problem->complete_config(device, {parse_fields(config, "config")}))
               .find("<" + reduction + ">") != std::string::npos;
  };
  const char* const cluster = "variant=cluster,threads=256,blocks_per_row=8";
  EXPECT_TRUE(has("MomentsAroundAPivot", "f32", cluster));
  EXPECT_TRUE(has("SumOfColumns", "f32", "variant=hybrid,threads=1024,register_vectors=4")) << "a mean, then squares";
  EXPECT_TRUE(has("SumOfColumns", "f32", "variant=cluster,threads=128,blocks_per_row=2")) << "64 vectors in a thread";
  EXPECT_TRUE(has("PlainSumOfColumns", "bf16", "variant=hybrid,threads=1024,register_vectors=4"));
  EXPECT_TRUE(has("MomentsOfColumns", "bf16", "variant=two_pass,threads=512,unroll=2")) << "any number of columns";
}

// A result of f32 shows the digits that plain sums lose.
TEST(RowProgramKernels, SumsArePlainWhereResultsAreNarrow) {
  const auto plain = [](const std::string& text) { return row_program::allows_plain_sums(row_program::parse(text)); };
  const std::string x = "in x : bf16[row, col]\nmean m = x\n", y = "out y : bf16[row, col] = x - m\n",
                    scale = "out s : f32[row] = m\n";
  EXPECT_TRUE(plain(x + y));
  EXPECT_TRUE(plain(x + "out y : e4m3[row, col] = x - m\n" + scale)) << "its scale";
  EXPECT_FALSE(plain(x + y + scale));
  EXPECT_FALSE(plain(x + scale)) << "no output [row, col]";
  EXPECT_FALSE(plain(x + "out y : f32[row, col] = x - m\n"));
  EXPECT_FALSE(plain("in x : f32[row, col]\nmean m = x\n" + y)) << "large offsets";
  EXPECT_FALSE(plain("in x : float[row, col]\nmean m = x\nout y : float[row, col] = x - m\n")) << "of no dtype yet";
}

// Loads of arrays [col] move before stores where each vector waits for its group, and where threads have registers left.
TEST(RowProgramKernels, SomeKernelsReadColumnsEarly) {
  const std::string& per_row = test::row_program_text("rms_norm");
  const std::string blocks =
      "in x : float[row, col]\nin w : float[col]\nmax[128] largest = abs(x)\n"
      "out y : e4m3[row, col] = x * w / max(largest, 1e-12)\n";
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  const auto reads_early = [&](const std::string& text, const std::string& fields) {
    const ParsedProblemPtr problem = parsed_program(text, "rows=128,cols=65536,dtype=bf16");
    const std::string source = render(*problem, problem->complete_config(device, {parse_fields(fields, "config")}));
    return source.find("ColumnList<Columns<bf16, 8, LoadHint::read_only>") != std::string::npos;
  };
  const std::string cluster = "variant=cluster,threads=256,blocks_per_row=8,register_vectors=1,registers=packed,min_blocks=";
  EXPECT_TRUE(reads_early(per_row, cluster + "4"));
  EXPECT_FALSE(reads_early(per_row, cluster + "5")) << "48 registers";
  EXPECT_TRUE(reads_early(per_row, "variant=cluster,threads=128,blocks_per_row=16,min_blocks=8")) << "64 registers";
  EXPECT_FALSE(reads_early(per_row, "variant=hybrid,threads=512,register_vectors=2,min_blocks=1,registers=packed"));
  EXPECT_TRUE(reads_early(blocks, "variant=hybrid,threads=512,register_vectors=2,min_blocks=1,registers=packed"));
  EXPECT_FALSE(reads_early(blocks, "variant=persistent,threads=512,blocks_per_row=8")) << "kept in shared memory";
  EXPECT_FALSE(reads_early(blocks, "variant=two_pass,threads=512,unroll=2")) << "rows that are not resident";
}

}  // namespace
}  // namespace tunesmith
