#pragma once
// A temporary folder, sample rows, and child processes for tests of the cache.

#include <gtest/gtest.h>
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "cache/connection.h"

namespace tunesmith {

class CacheTest : public testing::Test {
 protected:
  CacheTest();
  ~CacheTest() override;

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path file() const { return folder_ / "cache.db"; }
  /// Returns options that collect warnings in `warnings`.
  CacheOptions options(const std::filesystem::path& file);
  CacheOptions options() { return options(file()); }
  /// Lists the names in the folder.
  std::vector<std::string> names() const;
  /// Counts the files that were moved aside.
  int count_aside() const;

  std::vector<std::string> warnings;

 private:
  std::filesystem::path folder_;
};

TuningKey sample_key(std::int64_t n_cols, std::int64_t rows_bucket = 4096);
/// Makes a record with every field set; fields depend on `seed`.
TuningRecord sample_record(std::int64_t n_cols, int seed = 1);
std::vector<Trial> sample_trials(int count, int seed = 1);
BinaryRecord sample_binary(const std::string& fingerprint, std::size_t image_bytes, int seed = 1);
std::string random_bytes(std::size_t count, int seed);

void expect_equal(const TuningRecord& actual, const TuningRecord& expected);
void expect_equal(const BinaryRecord& actual, const BinaryRecord& expected);
void expect_equal(const std::vector<Trial>& actual, std::vector<Trial> expected);  // in any order

std::string read_file(const std::filesystem::path& file);
void write_file(const std::filesystem::path& file, const std::string& bytes);

/// Runs `body` in a forked process. Expectations that fail in it make its exit status 1.
pid_t start_process(const std::function<void()>& body);
/// Waits for a process; returns true if it exited with status 0.
bool finished_well(pid_t process);

}  // namespace tunesmith
