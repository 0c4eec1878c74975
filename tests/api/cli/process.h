#pragma once
// Runs the built program as a user would: arguments and environment in; exit code, stdout and stderr out.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace tunesmith::cli {

struct Outcome {
  int code = -1;  ///< 128 + n when signal n ended it
  std::string out, err;
};

/// The command line of the build that this test program belongs to, wherever that was moved.
std::string built_program();

/// A scratch folder with a cache file of its own, and the program in it.
class CliTest : public testing::Test {
 protected:
  CliTest();
  ~CliTest() override;

  Outcome run(const std::vector<std::string>& arguments) const;
  /// Starts it and leaves it running; wait_for() collects it.
  int start(const std::vector<std::string>& arguments) const;
  Outcome wait_for(int process) const;

  /// Expects exit code 2 (or `code`), an empty stdout, and one line on stderr that holds every text of `parts`.
  void expect_rejected(const std::vector<std::string>& arguments, const std::vector<std::string>& parts, int code = 2) const;

  /// Expects exit code 0 and one JSON value and nothing else on stdout.
  nlohmann::json run_json(std::vector<std::string> arguments) const;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const;
  std::string read(const std::string& name) const;
  std::string cache_file() const { return path("cache.db"); }
  /// Files of the folder, but for what the runs wrote to stdout and stderr, and the locks of the cache.
  std::vector<std::string> files() const;

  /// What doctor found: tests that need it skip where it is not.
  bool has_nvrtc() const;
  bool has_gpu() const;

  std::map<std::string, std::string> environment;  ///< on top of what every run gets
  std::set<std::string> without;                   ///< variables that runs do not get
  std::string program = built_program();
  bool shipped_records = false;  ///< whether runs see the records that ship with the program; most tests count their own
  std::filesystem::path folder_;
};

}  // namespace tunesmith::cli
