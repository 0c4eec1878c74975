#include "api/engine/problem_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>
#include <variant>

#include "core/utf8.h"
#include "tuner/select.h"

namespace tunesmith {
namespace {

/// Bytes that are not UTF-8, such as a Latin-1 comment in a user function, become U+FFFD: JSON is UTF-8.
std::string json_string(std::string_view text) {
  std::string json = "\"";
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = utf8_length(text);
    if (c == '"' || c == '\\') json += '\\';
    if (length == 0) {
      json += "\\ufffd";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      json += text.substr(0, length);
    } else {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      json += code.data();
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return json += '"';
}

std::string json_of(const Problem& problem) {
  std::string json = "{\"op\": " + json_string(problem.op);
  for (const auto& [field, value] : problem.fields) {
    const auto* const string = std::get_if<std::string>(&value);
    json += ", " + json_string(field) + ": " + (string != nullptr ? json_string(*string) : text(value));
  }
  return json;
}

std::string line(const std::string& problem, std::int64_t count) {
  return problem + ", \"count\": " + std::to_string(count) + "}\n";
}

/// Returns a key that decides the tuning result and the source.
std::string key_of(const ParsedProblem& problem) {
  const KeyParts parts = problem.key();
  std::string key = problem.problem().op + " " + parts.problem_class + " " + std::to_string(tuned_n_cols(parts)) + " " +
                    std::to_string(parts.rows_bucket);
  const std::span<const FieldInfo> infos = problem.op().cached_fields();
  for (const auto& [field, value] : problem.problem().fields) {
    const auto info = std::ranges::find(infos, std::string_view(field), &FieldInfo::name);
    if (info == infos.end() || !info->runtime) key.append(" ").append(field).append("=").append(text(value));
  }
  return key;
}

}  // namespace

ProblemLog::ProblemLog(std::filesystem::path file, std::size_t capacity, std::function<void(const std::string&)> warn)
    : file_(std::move(file)), capacity_(capacity), warn_(std::move(warn)) {}

ProblemLog::~ProblemLog() {
  std::string lines;
  for (const auto& [key, entry] : entries_)
    if (entry.unwritten > 0) lines += line(entry.problem, entry.unwritten);
  if (!lines.empty()) append(lines);
}

void ProblemLog::count(const ParsedProblem& problem) {
  std::string key = key_of(problem);
  const std::lock_guard lock(mutex_);
  if (const auto known = entries_.find(key); known != entries_.end()) {
    ++known->second.unwritten;
    return;
  }
  if (entries_.size() >= capacity_) return;
  const Entry& entry = entries_.emplace(std::move(key), Entry{json_of(problem.problem()), 0}).first->second;
  append(line(entry.problem, 1));
}

// One write for whole lines, so that lines of several processes do not mix.
void ProblemLog::append(const std::string& lines) {
  if (failed_) return;
  const int descriptor = open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  const bool written =
      descriptor >= 0 && write(descriptor, lines.data(), lines.size()) == static_cast<ssize_t>(lines.size());
  const int why = errno;
  if (descriptor >= 0) close(descriptor);
  if (written) return;
  failed_ = true;
  if (warn_) warn_("the problem log " + file_.string() + " cannot be written: " + std::generic_category().message(why));
}

}  // namespace tunesmith
