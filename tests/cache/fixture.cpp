#include "tests/cache/fixture.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

namespace tunesmith {

namespace fs = std::filesystem;

CacheTest::CacheTest() {
  // Prefer a file system in memory, because the tests sync thousands of times.
  const fs::path memory = "/dev/shm";
  const fs::path parent = access(memory.c_str(), W_OK | X_OK) == 0 ? memory : fs::temp_directory_path();
  std::string pattern = (parent / "tunesmith-cache-XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
  folder_ = pattern;
}

CacheTest::~CacheTest() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

CacheOptions CacheTest::options(const fs::path& file) {
  CacheOptions options;
  options.file = file;
  options.warn = [this](const std::string& text) { warnings.push_back(text); };
  return options;
}

std::vector<std::string> CacheTest::names() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

int CacheTest::count_aside() const {
  const auto all = names();
  return static_cast<int>(std::count_if(all.begin(), all.end(), [](const std::string& name) {
    return name.starts_with("cache.db.corrupt-") && !name.ends_with("-journal");
  }));
}

TuningKey sample_key(std::int64_t n_cols, std::int64_t rows_bucket) {
  return {"softmax", "x=bf16,y=bf16,align=16", n_cols, rows_bucket, "NVIDIA H200 sm_90a 132", "0123abcd", "events,v1"};
}

TuningRecord sample_record(std::int64_t n_cols, int seed) {
  TuningRecord record;
  record.key = sample_key(n_cols);
  record.config = "variant=block,threads=" + std::to_string(32 * seed);
  record.median_us = 12.5 + seed;
  record.mad_us = 0.125 * seed;
  record.default_median_us = 14.75 + seed;
  record.bytes = 1e9 + seed;
  record.problem = "softmax rows=4096,cols=" + std::to_string(n_cols);
  record.effort = seed % 2 ? "full" : "quick";
  record.provenance = {{"driver", "580." + std::to_string(seed)}, {"host time", "1 = one\nline two\\"}, {"", ""}};
  record.created_unix_s = 1700000000 + seed;
  return record;
}

std::vector<Trial> sample_trials(int count, int seed) {
  std::vector<Trial> trials;
  for (int i = 0; i < count; ++i) {
    Trial trial;
    trial.config = "variant=block,threads=" + std::to_string(32 * (i + 1));
    trial.status = i % 3 == 2 ? "wrong" : "timed";
    trial.median_us = 10.0 + i + seed;
    trial.mad_us = 0.25 * i;
    trial.samples = 7 + i;
    trial.reason = i % 3 == 2 ? "y[3,17] is 0.5, not 0.25" : "";
    trials.push_back(trial);
  }
  return trials;
}

std::string random_bytes(std::size_t count, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

BinaryRecord sample_binary(const std::string& fingerprint, std::size_t image_bytes, int seed) {
  BinaryRecord binary;
  binary.fingerprint = fingerprint;
  binary.source_hash = "source of " + fingerprint;
  binary.options = "-arch=sm_90a --std=c++20";
  binary.arch = "sm_90a";
  binary.toolchain = "nvrtc 13.0 " + std::to_string(seed);
  binary.image = random_bytes(image_bytes, seed);
  binary.log = "warning: line 1\nline 2";
  binary.resources = {{"softmax_block", "registers=32,static_smem_bytes=0"}, {"other", ""}};
  binary.op = "softmax";
  return binary;
}

void expect_equal(const TuningRecord& actual, const TuningRecord& expected) {
  EXPECT_EQ(actual.key, expected.key);
  EXPECT_EQ(actual.config, expected.config);
  EXPECT_EQ(actual.median_us, expected.median_us);
  EXPECT_EQ(actual.mad_us, expected.mad_us);
  EXPECT_EQ(actual.default_median_us, expected.default_median_us);
  EXPECT_EQ(actual.bytes, expected.bytes);
  EXPECT_EQ(actual.problem, expected.problem);
  EXPECT_EQ(actual.effort, expected.effort);
  EXPECT_EQ(actual.provenance, expected.provenance);
  EXPECT_EQ(actual.created_unix_s, expected.created_unix_s);
  EXPECT_EQ(actual.shipped, expected.shipped);
}

void expect_equal(const BinaryRecord& actual, const BinaryRecord& expected) {
  EXPECT_EQ(actual.fingerprint, expected.fingerprint);
  EXPECT_EQ(actual.source_hash, expected.source_hash);
  EXPECT_EQ(actual.options, expected.options);
  EXPECT_EQ(actual.arch, expected.arch);
  EXPECT_EQ(actual.toolchain, expected.toolchain);
  EXPECT_TRUE(actual.image == expected.image)
      << "images of " << actual.image.size() << " and " << expected.image.size() << " bytes";
  EXPECT_EQ(actual.log, expected.log);
  EXPECT_EQ(actual.resources, expected.resources);
  EXPECT_EQ(actual.op, expected.op);
}

void expect_equal(const std::vector<Trial>& actual, std::vector<Trial> expected) {
  std::vector<Trial> sorted = actual;
  const auto by_config = [](const Trial& a, const Trial& b) { return a.config < b.config; };
  std::sort(sorted.begin(), sorted.end(), by_config);
  std::sort(expected.begin(), expected.end(), by_config);
  ASSERT_EQ(sorted.size(), expected.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    EXPECT_EQ(sorted[i].config, expected[i].config);
    EXPECT_EQ(sorted[i].status, expected[i].status);
    EXPECT_EQ(sorted[i].median_us, expected[i].median_us);
    EXPECT_EQ(sorted[i].mad_us, expected[i].mad_us);
    EXPECT_EQ(sorted[i].samples, expected[i].samples);
    EXPECT_EQ(sorted[i].reason, expected[i].reason);
  }
}

std::string read_file(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_file(const fs::path& file, const std::string& bytes) {
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream << bytes;
}

pid_t start_process(const std::function<void()>& body) {
  std::fflush(nullptr);  // otherwise the child prints buffered output again
  const pid_t process = fork();
  if (process != 0) return process;
  int status = 1;
  try {
    body();
    status = testing::Test::HasFailure() ? 1 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the process threw: %s\n", error.what());
  }
  std::fflush(nullptr);
  _exit(status);
}

bool finished_well(pid_t process) {
  int status = 0;
  return process > 0 && waitpid(process, &status, 0) == process && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace tunesmith
