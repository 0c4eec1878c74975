#pragma once
// Tuning records as JSON lines, sorted by key, so that a repository can hold them and reviewers can read them.

#include <filesystem>
#include <string>
#include <vector>

#include "cache/cache.h"

namespace tunesmith::cli {

/// Prints the records; every line ends with '\n'. The UUID of the GPU is omitted, because no lookup uses it.
std::string to_lines(std::vector<TuningRecord> records);
/// Reads the lines. Throws Error(io) that names `file`, the line and the mistake.
std::vector<TuningRecord> parse_lines(const std::string& text, const std::filesystem::path& file);

/// Whether a file holds such lines, by its name: "*.jsonl".
bool holds_lines(const std::filesystem::path& file);
/// Throws Error(io) and the errors of parse_lines().
std::vector<TuningRecord> read_lines(const std::filesystem::path& file);
/// Throws Error(io), also when the file exists.
void write_lines(const std::vector<TuningRecord>& records, const std::filesystem::path& file);

}  // namespace tunesmith::cli
