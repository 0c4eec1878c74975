#pragma once
// Records the problems that a program prepares, so that a cache can be warmed for them. Internal.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>

#include "templates/op.h"

namespace tunesmith {

/// Appends problems to a file that `tunesmith prewarm --spec` reads: one JSON object a line, with the problem's fields and
/// "count". Problems with the same tuning key and the same source are one entry, written as its first problem. A new entry
/// is written at once, further counts by the destructor; the reader adds up equal lines. Several processes may append to one
/// file. Thread-safe.
class ProblemLog {
 public:
  /// Keeps at most `capacity` entries; later ones are ignored. `warn` is called once if the file cannot be written.
  ProblemLog(std::filesystem::path file, std::size_t capacity, std::function<void(const std::string&)> warn);
  ~ProblemLog();
  ProblemLog(const ProblemLog&) = delete;
  ProblemLog& operator=(const ProblemLog&) = delete;

  void count(const ParsedProblem& problem);

 private:
  struct Entry {
    std::string problem;  ///< JSON, without the count and the closing brace
    std::int64_t unwritten = 0;
  };

  void append(const std::string& lines);

  const std::filesystem::path file_;
  const std::size_t capacity_;
  const std::function<void(const std::string&)> warn_;
  std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
  bool failed_ = false;
};

}  // namespace tunesmith
