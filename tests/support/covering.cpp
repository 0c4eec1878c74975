#include "tests/support/covering.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

namespace tunesmith::test {
namespace {

/// Whether the value is one of a few, so that pairs with it are worth a kernel.
bool is_choice(const Value& value) {
  if (const auto* const number = std::get_if<std::int64_t>(&value)) return *number == 0 || *number == 1;
  const auto* const word = std::get_if<std::string>(&value);
  return word != nullptr && word->find_first_of(" \n") == std::string::npos;  // not a program or a user function
}

std::vector<std::string> features_of(const Case& c, const std::string& group) {
  const std::string op = c.problem.op, variant = c.config.variant();
  std::vector<std::string> features{"op " + op + " " + variant};
  for (const auto& [name, value] : c.problem.fields) {
    features.push_back("value " + name + "=" + text(value));
    features.push_back(variant + " has " + name + (is_choice(value) ? "=" + text(value) : ""));
  }
  // Registers and shared memory depend on the head size together with each option.
  if (const Value* const head_dim = c.problem.fields.find("head_dim"))
    for (const auto& [name, value] : c.problem.fields)
      if (is_choice(value)) features.push_back(variant + " of " + text(*head_dim) + " with " + name + "=" + text(value));
  for (const auto& [name, value] : c.config.fields) features.push_back(variant + " with " + name + "=" + text(value));
  if (!group.empty()) {
    features.push_back(group + " " + variant);
    features.push_back(group + " of " + op);
    if (c.problem.fields.contains("dtype")) features.push_back(group + " for " + c.problem.fields.string("dtype"));
  }
  return features;
}

}  // namespace

std::vector<std::size_t> covering_features(const std::vector<std::vector<std::string>>& sets) {
  std::map<std::string, std::size_t> numbers;
  std::vector<std::vector<std::size_t>> features(sets.size());
  for (std::size_t i = 0; i < sets.size(); ++i)
    for (const std::string& feature : sets[i]) features[i].push_back(numbers.emplace(feature, numbers.size()).first->second);

  std::vector<bool> covered(numbers.size());
  std::set<std::size_t> chosen;
  for (std::size_t most = 1; most != 0;) {
    std::size_t best = 0;
    most = 0;
    for (std::size_t i = 0; i < features.size(); ++i) {
      const auto added = static_cast<std::size_t>(
          std::ranges::count_if(features[i], [&](std::size_t feature) { return !covered[feature]; }));
      if (added <= most) continue;
      most = added;
      best = i;
    }
    if (most == 0) break;
    chosen.insert(best);
    for (const std::size_t feature : features[best]) covered[feature] = true;
  }
  if (std::getenv("TUNESMITH_ALL_CASES") != nullptr)
    for (std::size_t i = 0; i < sets.size(); ++i) chosen.insert(i);
  return {chosen.begin(), chosen.end()};
}

std::vector<std::size_t> covering_indices(const std::vector<Case>& cases, const std::vector<std::string>& groups) {
  std::vector<std::vector<std::string>> features;
  for (std::size_t i = 0; i < cases.size(); ++i) features.push_back(features_of(cases[i], groups.empty() ? "" : groups[i]));
  return covering_features(features);
}

std::vector<Case> covering(const std::vector<Case>& cases) {
  std::vector<Case> chosen;
  for (const std::size_t i : covering_indices(cases)) chosen.push_back(cases[i]);
  return chosen;
}

}  // namespace tunesmith::test
