// Small parts of the command line: messages, suggestions, tables, durations, occupancy.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "api/cli/arguments/errors.h"
#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/nearest.h"
#include "api/cli/input/array_table.h"
#include "api/cli/input/arrays.h"
#include "api/cli/report/occupancy.h"
#include "api/cli/report/run_report.h"
#include "api/cli/report/table.h"
#include "api/cli/tuning/tune_child.h"
#include "tests/api/engine/fakes.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

// Tuning runs in a child process, whose cache file this process reads: fakes stand for both.
TEST(RunReport, ABinaryThatTuningCompiledWasCompiledByThisCommand) {
  std::string pattern = (std::filesystem::temp_directory_path() / "tunesmith-report-XXXXXX").string();
  const std::filesystem::path folder = mkdtemp(pattern.data());
  const Op& op = find_op("softmax");
  const Problem problem = op.normalize({"softmax", {{"rows", std::int64_t{8}}, {"cols", std::int64_t{100}}}});
  const auto tune_in_child = [&](bool force) {
    fakes::FakeEngine child(fakes::in_mode(Mode::tune), DeviceInfo::Kind::cuda, folder / "cache.db");
    TuneOptions options;
    options.effort = Effort::quick;
    options.force = force;
    const TuneResult result = tune(*op.parse(problem), child.engine->parts().bench(), options);
    return tuning_facts(problem, child.device->info(), result, folder / "cache.db");
  };
  const auto report_of = [&](const Json& tuning) {
    fakes::FakeEngine parent(fakes::in_mode(Mode::tune), DeviceInfo::Kind::cuda, folder / "cache.db");
    const Config winner{parse_fields(tuning.at("config").get<std::string>(), "tuned config")};
    RunReport report;
    report.problem = problem;
    report.config = winner;
    report.launched = true;
    report.tuning = tuning;
    report_binary(report, parent.engine->prepare(problem, {winner, Mode::off}));
    EXPECT_EQ(parent.compiler->compilations, 0) << "it is in the cache";
    return report;
  };

  RunReport report = report_of(tune_in_child(false));
  EXPECT_TRUE(report.compiled);
  EXPECT_GT(report.compile_ms, 0);
  EXPECT_NE(to_table(report).find("binary     compiled in "), std::string::npos) << to_table(report);
  EXPECT_EQ(to_json(report)["compiled"], true);

  report = report_of(tune_in_child(true));
  EXPECT_FALSE(report.compiled) << "an earlier command did";
  EXPECT_EQ(report.compile_ms, 0);
  EXPECT_NE(to_table(report).find("binary     loaded from the cache"), std::string::npos) << to_table(report);
  std::filesystem::remove_all(folder);
}

TEST(Nearest, FindsSlipsAndNothingElse) {
  const std::vector<std::string> allowed{"rows", "cols", "dtype", "out_dtype", "x_row_stride"};
  EXPECT_EQ(nearest("row", allowed), "rows");
  EXPECT_EQ(nearest("colz", allowed), "cols");
  EXPECT_EQ(nearest("dytpe", allowed), "dtype");  // a swap counts once
  EXPECT_EQ(nearest("x_rows_strides", allowed), "x_row_stride");
  EXPECT_EQ(nearest("temperature", allowed), "");
  EXPECT_EQ(nearest("", allowed), "");
  EXPECT_EQ(did_you_mean("row", allowed), "; did you mean 'rows'?");
  EXPECT_EQ(did_you_mean("temperature", allowed), "");
}

TEST(Table, Aligns) {
  EXPECT_EQ(table({{"name"}, {"us", true}, {"note"}}, {{"a", "1.50", ""}, {"longer", "10.25", "x"}}),
            "name       us  note\n"
            "a        1.50\n"
            "longer  10.25  x\n");
  EXPECT_EQ(listing({{"a", "1"}, {"left out", ""}, {"bcd", "2"}}), "a    1\nbcd  2\n");
}

TEST(Table, WritesNumbers) {
  EXPECT_EQ(microseconds(7.417), "7.42 us");
  EXPECT_EQ(microseconds(153.06), "153.1 us");
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(times(1.5), "1.50x");
}

TEST(Duration, ReadsUnitsAndRejectsTheRest) {
  EXPECT_DOUBLE_EQ(parse_duration("500ms", "--budget"), 0.5);
  EXPECT_DOUBLE_EQ(parse_duration("10s", "--budget"), 10);
  EXPECT_DOUBLE_EQ(parse_duration("1.5m", "--budget"), 90);
  EXPECT_DOUBLE_EQ(parse_duration("3", "--budget"), 3);
  for (const char* text : {"", "s", "0s", "-1s", "1h", "1 s", "inf", "nan", "1e999s"})
    EXPECT_THROW(parse_duration(text, "--budget"), Error) << text;
}

KernelLaunch launch_of(std::uint32_t threads, std::int64_t dynamic_smem_bytes = 0) {
  KernelLaunch launch;
  launch.block = {threads, 1, 1};
  launch.dynamic_smem_bytes = dynamic_smem_bytes;
  return launch;
}

TEST(Occupancy, IsWhatTheOccupancyCalculatorSays) {
  const DeviceInfo h100 = generic_device({9, 0, 'a'});
  KernelResources resources;
  resources.registers = 32;
  Occupancy occupancy = estimate_occupancy(h100, resources, launch_of(256));
  EXPECT_EQ(occupancy.blocks, 8);
  EXPECT_DOUBLE_EQ(occupancy.warp_share, 1);
  EXPECT_STREQ(occupancy.limit, "threads");

  resources.registers = 168;  // 10 warps of 168 * 32 registers would fit; 8, in fours, may stay
  occupancy = estimate_occupancy(h100, resources, launch_of(128));
  EXPECT_EQ(occupancy.blocks, 3);
  EXPECT_STREQ(occupancy.limit, "registers");

  resources.registers = 32;
  occupancy = estimate_occupancy(h100, resources, launch_of(128, 100 << 10));
  EXPECT_EQ(occupancy.blocks, 2);
  EXPECT_STREQ(occupancy.limit, "shared memory");

  occupancy = estimate_occupancy(h100, resources, launch_of(32));
  EXPECT_EQ(occupancy.blocks, 32);
  EXPECT_STREQ(occupancy.limit, "blocks");
  EXPECT_EQ(estimate_occupancy(generic_device({8, 6, 0}), resources, launch_of(32)).blocks, 16);

  resources.registers = 128;
  EXPECT_EQ(estimate_occupancy(h100, resources, launch_of(1024)).blocks, 0);  // would not start
}

TEST(Files, PairsAreSplitAtTheFirstEquals) {
  const FileMap files = parse_files({"x=a=b.npy"}, "--input");
  EXPECT_EQ(files.at("x"), "a=b.npy");
  for (const char* text : {"x", "=a.npy", "x=", ""}) EXPECT_THROW(parse_files({text}, "--input"), Error) << text;
  EXPECT_THROW(parse_files({"x=a", "x=b"}, "--input"), Error);
}

/// "batch x seq_q x head_dim": the fields behind an array's dimensions.
std::string dimensions_of(const ArrayTable& table, const std::string& name) {
  const auto array = std::ranges::find(table.arrays(), name, &ArrayInfo::name);
  if (array == table.arrays().end()) return "none";
  std::string text;
  for (const Dimension& dimension : table.dimensions(*array))
    text +=
        (text.empty() ? "" : " x ") + dimension.field + (dimension.plus == 0 ? "" : "+" + std::to_string(dimension.plus));
  return text;
}

TEST(ArrayTable, NamesTheFieldsBehindDimensions) {
  const ArrayTable softmax(find_op("softmax"), {});
  EXPECT_EQ(dimensions_of(softmax, "x"), "rows x cols");
  EXPECT_EQ(dimensions_of(softmax, "mask"), "none");
  const ArrayTable combine(find_op("cross_entropy_combine"), {{"weight", 1}});
  EXPECT_EQ(dimensions_of(combine, "targets"), "rows");
  const ArrayTable copy(find_op("copy"), {{"inputs", 2}});
  EXPECT_EQ(dimensions_of(copy, "a"), "elements");
  EXPECT_TRUE(copy.is_always_there("a"));

  const Op& op = find_op("attention");
  const ArrayTable plain(op, {{"heads", 71}, {"kv_heads", 1}, {"head_dim", 200}});
  EXPECT_EQ(dimensions_of(plain, "q"), "batch x seq_q x heads x head_dim");
  EXPECT_EQ(dimensions_of(plain, "k"), "batch x seq_kv x kv_heads x head_dim");
  EXPECT_EQ(dimensions_of(plain, "v"), "batch x seq_kv x kv_heads x head_dim_v");
  EXPECT_EQ(dimensions_of(plain, "lse"), "batch x heads x seq_q");
  const ArrayTable packed(op, {{"layout", std::string("bhsd")}, {"varlen", 1}, {"total_q", 1000000}});
  EXPECT_EQ(dimensions_of(packed, "q"), "heads x total_q x head_dim");
  EXPECT_EQ(dimensions_of(packed, "v"), "kv_heads x total_kv x head_dim_v");
  EXPECT_EQ(dimensions_of(packed, "cu_seqlens_kv"), "batch+1");
  EXPECT_FALSE(packed.is_always_there("cu_seqlens_kv"));
}

RunReport report_of_a_run() {
  RunReport report;
  report.problem = find_op("softmax").normalize({"softmax", {{"rows", 8}, {"cols", 16}}});
  report.config = {parse_fields("variant=warp,threads=64", "config")};
  report.launched = true;
  return report;
}

TEST(RunReport, ACopyIsTheBaselineOnlyOfWhatWritesMuch) {
  RunReport report = report_of_a_run();
  report.measurement = Measurement{10, 0.1, 12, 20};
  report.cost = {.bytes_read = 5e5, .bytes_written = 5e5};
  EXPECT_NE(to_table(report).find("\nbaseline    120.0 % of a device copy"), std::string::npos) << to_table(report);
  report.cost = {.bytes_read = 9.9e5, .bytes_written = 1e4};
  const std::string table = to_table(report);
  EXPECT_EQ(table.find("baseline"), std::string::npos) << table;
  EXPECT_NE(table.find("1.20x the rate of a device copy"), std::string::npos) << table;
  EXPECT_NE(table.find("this writes 1.0 %"), std::string::npos) << table;
}

TEST(RunReport, ACopyIsNoBaselineOfArithmetic) {
  RunReport report = report_of_a_run();
  report.measurement = Measurement{10, 0.1, 12, 20};
  report.cost = {.bytes_read = 5e5, .bytes_written = 5e5, .flops = 2e9};
  const std::string table = to_table(report);
  EXPECT_NE(table.find("throughput  200.0 TFLOP/s, 100 GB/s\n"), std::string::npos) << table;
  EXPECT_EQ(table.find("copy"), std::string::npos) << table;
  const Json json = to_json(report);
  EXPECT_EQ(json["tflop_per_s"], 200);
  EXPECT_EQ(json["gb_per_s"], 100);
  EXPECT_EQ(json["share_of_copy"], 1.2);
}

TEST(RunReport, AnUpperBoundOfWorkMakesNoRate) {
  RunReport report = report_of_a_run();
  report.measurement = Measurement{10, 0.1, 12, 20};
  for (const double flops : {1e3, 2e9}) {
    report.cost = {.bytes_read = 5e5, .bytes_written = 5e5, .flops = flops, .overcounted = "pairs that mask_mod hides"};
    const std::string table = to_table(report);
    EXPECT_NE(table.find("\nthroughput  not stated: bytes and operations are counted with pairs that mask_mod hides\n"),
              std::string::npos)
        << table;
    for (const char* rate : {"FLOP/s", "GB/s", "copy"}) EXPECT_EQ(table.find(rate), std::string::npos) << table;
    const Json json = to_json(report);
    EXPECT_EQ(json["time_us"], 10);
    EXPECT_EQ(json["flops"], flops);
    EXPECT_EQ(json["overcounted"], "pairs that mask_mod hides");
    for (const char* rate : {"gb_per_s", "tflop_per_s", "share_of_copy"}) EXPECT_TRUE(json[rate].is_null()) << rate;
  }
}

TEST(RunReport, RelativeErrorsShowTheirDigits) {
  RunReport report = report_of_a_run();
  report.check.max_error = 2.25e-7;
  report.check.allowed_error = 3e-5;
  report.check.error_unit = "relative";
  EXPECT_NE(to_table(report).find("max error 2.2e-07 relative, allowed 3.0e-05"), std::string::npos) << to_table(report);
}

}  // namespace
}  // namespace tunesmith::cli
