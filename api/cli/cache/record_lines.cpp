#include "api/cli/cache/record_lines.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <system_error>
#include <type_traits>

#include "api/cli/tuning/tune_child.h"

namespace tunesmith::cli {
namespace {

namespace fs = std::filesystem;

// The order of the fields in a line: key, result, measurement.
template <typename Record, typename Visit>
void for_each_field(Record& record, const Visit& visit) {
  visit("op", record.key.op);
  visit("n_cols", record.key.n_cols);
  visit("rows_bucket", record.key.rows_bucket);
  visit("problem_class", record.key.problem_class);
  visit("device_class", record.key.device_class);
  visit("template_digest", record.key.template_digest);
  visit("policy", record.key.policy);
  visit("config", record.config);
  visit("median_us", record.median_us);
  visit("mad_us", record.mad_us);
  visit("default_median_us", record.default_median_us);
  visit("bytes", record.bytes);
  visit("problem", record.problem);
  visit("effort", record.effort);
  visit("created_unix_s", record.created_unix_s);
  visit("provenance", record.provenance);
}

TuningRecord parse_line(const std::string& line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) throw Error(ErrorCode::invalid_argument, "expected a JSON object");
  TuningRecord record;
  for_each_field(record, [&](const char* field, auto& value) {
    if (!json.contains(field)) throw Error(ErrorCode::invalid_argument, "'", field, "' is missing");
    try {
      if constexpr (std::is_same_v<decltype(value), double&>) {
        if (json.at(field).is_null()) {  // JSON's form of a number that is not finite
          value = std::numeric_limits<double>::quiet_NaN();
          return;
        }
      }
      json.at(field).get_to(value);
    } catch (const Json::exception&) {
      throw Error(ErrorCode::invalid_argument, "'", field, "' is ", dump(json.at(field)), "; expected another type");
    }
  });
  for (const auto& [field, value] : json.items()) {
    bool expected = false;
    for_each_field(record, [&, name = field](const char* other, const auto&) { expected = expected || name == other; });
    if (!expected) throw Error(ErrorCode::invalid_argument, "'", field, "' is not a field of a record");
  }
  return record;
}

}  // namespace

std::string to_lines(std::vector<TuningRecord> records) {
  std::ranges::sort(records, {}, &TuningRecord::key);
  std::string text;
  for (TuningRecord& record : records) {
    record.provenance.erase("device_uuid");
    Json json;
    for_each_field(record, [&](const char* field, const auto& value) { json[field] = value; });
    text += dump(json) + "\n";
  }
  return text;
}

std::vector<TuningRecord> parse_lines(const std::string& text, const fs::path& file) {
  std::vector<TuningRecord> records;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    try {
      records.push_back(parse_line(line));
    } catch (const Error& error) {
      throw Error(ErrorCode::io, file.string(), ":", number, ": ", error.what());
    }
  }
  return records;
}

bool holds_lines(const fs::path& file) { return file.extension() == ".jsonl"; }

std::vector<TuningRecord> read_lines(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) throw Error(ErrorCode::io, "'", file.string(), "' cannot be read: ", std::generic_category().message(errno));
  return parse_lines(text, file);
}

void write_lines(const std::vector<TuningRecord>& records, const fs::path& file) {
  // "x" never overwrites a file.
  std::FILE* const stream = std::fopen(file.c_str(), "wx");
  const auto fail = [&] {
    throw Error(ErrorCode::io, "cannot export to '", file.string(), "': ", std::generic_category().message(errno));
  };
  if (stream == nullptr) fail();
  const std::string text = to_lines(records);
  const bool written = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
  if ((std::fclose(stream) != 0) || !written) fail();
}

}  // namespace tunesmith::cli
