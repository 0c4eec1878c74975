#include "tests/random/case.h"

#include <algorithm>
#include <iterator>

#include "tunesmith/error.h"

namespace tunesmith::test {

std::string RandomCase::text() const {
  std::string text = problem.text();
  if (!broken.empty()) return text + " | rejects " + broken;
  if (!config.fields.empty()) text += " | " + config.text();
  return text + " | " + std::string(values_names[static_cast<std::size_t>(values)]) + " " + std::to_string(seed);
}

RandomCase RandomCase::parse(std::string_view line) {
  std::vector<std::string> parts;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(" | "), line.size());
    parts.emplace_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 3, line.size()));
  }
  if (parts.empty()) throw Error(ErrorCode::invalid_argument, "an empty case");
  RandomCase made;
  const std::size_t blank = std::min(parts[0].find(' '), parts[0].size());
  made.problem.op = parts[0].substr(0, blank);
  made.problem.fields = parse_fields(blank < parts[0].size() ? parts[0].substr(blank + 1) : "", "the case");
  if (parts.size() < 2) return made;
  const std::string& last = parts.back();
  const std::string word = last.substr(0, last.find(' ')), rest = last.substr(std::min(last.find(' ') + 1, last.size()));
  if (word == "rejects") {
    made.broken = rest;
    return made;
  }
  const auto found = std::ranges::find(values_names, std::string_view(word));
  if (found == std::end(values_names)) throw Error(ErrorCode::invalid_argument, "values are '", word, "'");
  made.values = static_cast<Values>(found - std::begin(values_names));
  made.seed = std::stoull(rest);
  if (parts.size() == 3) made.config.fields = parse_fields(parts[1], "the configuration");
  return made;
}

}  // namespace tunesmith::test
