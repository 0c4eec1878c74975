#include "tests/support/cases.h"

#include <algorithm>
#include <random>
#include <set>

namespace tunesmith::test {
Problem normalized(std::string_view op, const std::string& fields) {
  return find_op(op).normalize({std::string(op), parse_fields(fields, "problem")});
}

Case case_of(const Problem& problem, const DeviceInfo& device, const std::string& config) {
  return {problem, find_op(problem.op).parse(problem)->complete_config(device, Config{parse_fields(config, "config")})};
}

Case case_of(std::string_view op, const std::string& fields, const DeviceInfo& device, const std::string& config) {
  return case_of(normalized(op, fields), device, config);
}

std::vector<Config> sample_space(const Problem& problem, const DeviceInfo& device, std::size_t count, std::uint64_t seed) {
  std::vector<Config> space = find_op(problem.op).parse(problem)->search_space(device, Effort::full);
  std::mt19937_64 random(seed);
  std::shuffle(space.begin() + 1, space.end(), random);
  std::vector<Config> sample{space.front()};
  std::set<std::string> variants{space.front().variant()};
  for (const Config& config : space)
    if (variants.insert(config.variant()).second) sample.push_back(config);
  for (const Config& config : space)
    if (sample.size() < count && std::ranges::find(sample, config) == sample.end()) sample.push_back(config);
  return sample;
}

}  // namespace tunesmith::test
