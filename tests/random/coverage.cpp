#include "tests/random/coverage.h"

#include <algorithm>
#include <bit>

#include "tests/random/chance.h"
#include "tests/random/layout.h"

namespace tunesmith::test {
namespace {

std::string class_of_integer(const DescribedField& field, std::int64_t value) {
  const FieldFacts& facts = field.facts;
  if (facts.power_of_two) return std::to_string(value);
  const bool follows = !facts.follows.text.empty();
  if (is_stride(field.name)) {
    if (value == 0) return "repeated";
    if (follows && value == facts.follows.integer) return "contiguous";
    return std::string(follows && value < facts.follows.integer ? "permuted" : "padded") + (value % 8 == 0 ? " by 8" : "");
  }
  if (value < 0) return "negative";
  if (follows && value == facts.follows.integer) return "as " + std::string(facts.follows.text);
  if (value <= 1) return std::to_string(value);
  if (value == facts.range.least) return "least";
  if (value == facts.range.most) return "most";
  const bool vectors = value % 8 == 0;
  if (value < 8) return "few";
  if (value <= 64) return vectors ? "some by 8" : "some";
  return vectors ? "many by 8" : "many";
}

std::string class_of(const DescribedField& field) {
  if (!field.value) return "absent";
  switch (field.kind) {
    case FieldKind::flag: return std::to_string(std::get<std::int64_t>(*field.value));
    case FieldKind::choice: return std::get<std::string>(*field.value);
    case FieldKind::text: return std::get<std::string>(*field.value).empty() ? "empty" : "given";
    case FieldKind::real: {
      const double value = std::get<double>(*field.value);
      if (value == 0 || value == 1) return std::to_string(static_cast<int>(value));
      if (value == field.facts.range.min_real) return "least";
      if (value == field.facts.range.max_real) return "most";
      return value < 0 ? "negative" : value < 1 ? "below 1" : "above 1";
    }
    case FieldKind::integer: break;
  }
  return class_of_integer(field, std::get<std::int64_t>(*field.value));
}

template <typename Visit>
void over_pairs(const std::vector<std::uint64_t>& classes, std::size_t bits, const Visit& visit) {
  for (std::size_t i = 0; i < classes.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) visit(mixed(classes[i], classes[j]) % bits);
}

}  // namespace

std::vector<std::uint64_t> classes_of(const RandomCase& random_case, const ParsedProblem& problem, const Config& config) {
  std::vector<std::uint64_t> classes;
  for (const DescribedField& field : problem.op().describe_fields(problem.problem().fields))
    classes.push_back(mixed(mixed(1, field.name), class_of(field)));
  if (config.fields.contains("variant")) classes.push_back(mixed(2, config.variant()));
  classes.push_back(mixed(3, static_cast<std::uint64_t>(random_case.values)));
  return classes;
}

void PairSets::add(Set& set, const std::vector<std::uint64_t>& classes) {
  over_pairs(classes, words * 64,
             [&](std::uint64_t bit) { set[bit / 64].fetch_or(std::uint64_t{1} << (bit % 64), std::memory_order_relaxed); });
}

std::size_t PairSets::new_pairs(std::size_t op, const std::vector<std::uint64_t>& classes) const {
  std::size_t found = 0;
  over_pairs(classes, words * 64, [&](std::uint64_t bit) {
    if ((run_[op][bit / 64].load(std::memory_order_relaxed) >> (bit % 64) & 1) == 0) ++found;
  });
  return found;
}

std::int64_t PairSets::count(const Set& set) {
  std::int64_t bits = 0;
  for (const std::atomic<std::uint64_t>& word : set) bits += std::popcount(word.load(std::memory_order_relaxed));
  return bits;
}

std::size_t op_index(const ParsedProblem& problem) {
  const auto ops = all_ops();
  return static_cast<std::size_t>(std::ranges::find(ops, &problem.op()) - ops.begin());
}

}  // namespace tunesmith::test
