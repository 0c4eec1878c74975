#pragma once
// Tuning records as text: one JSON object a line, sorted by key, so that results can be kept and reviewed in a repository.

#include <filesystem>
#include <string>
#include <vector>

#include "cache/cache.h"

namespace tunesmith::cli {

/// Every line ends with '\n'. What identifies the one GPU that measured (its UUID) is left out: it decides nothing.
std::string to_lines(std::vector<TuningRecord> records);
/// Throws Error(io) that names `file`, the line and what is wrong there.
std::vector<TuningRecord> parse_lines(const std::string& text, const std::filesystem::path& file);

/// Whether a file's name says that it holds such lines: "*.jsonl".
bool holds_lines(const std::filesystem::path& file);
/// Throws Error(io) and what parse_lines() throws.
std::vector<TuningRecord> read_lines(const std::filesystem::path& file);
/// Throws Error(io), also when the file exists.
void write_lines(const std::vector<TuningRecord>& records, const std::filesystem::path& file);

}  // namespace tunesmith::cli
