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

constexpr std::size_t bits_of_word = 64;

/// Returns the position of a pair in a set of `bits`, which does not depend on the order of the two.
std::size_t bit_of(std::uint64_t a, std::uint64_t b, std::size_t bits) {
  return mixed(std::max(a, b), std::min(a, b)) % bits;
}

template <typename Visit>
void over_pairs(const std::vector<std::uint64_t>& classes, std::size_t bits, const Visit& visit) {
  for (std::size_t i = 0; i < classes.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) visit(bit_of(classes[i], classes[j], bits));
}

}  // namespace

std::vector<std::string> class_names(const RandomCase& random_case, const ParsedProblem& problem, const Config& config) {
  std::vector<std::string> names;
  for (const DescribedField& field : problem.op().describe_fields(problem.problem().fields))
    names.push_back(std::string(field.name) + " " + class_of(field));
  if (config.fields.contains("variant")) names.push_back("variant " + config.variant());
  if (config.fields.contains("capacity")) names.push_back("kernel of a bucket of widths");
  names.push_back("values " + std::string(values_names[static_cast<std::size_t>(values_in(random_case.values, problem))]));
  return names;
}

std::vector<std::uint64_t> classes_of(const RandomCase& random_case, const ParsedProblem& problem, const Config& config) {
  std::vector<std::uint64_t> classes;
  for (const std::string& name : class_names(random_case, problem, config)) classes.push_back(mixed(1, name));
  return classes;
}

void PairSets::add(Which which, std::size_t op, const std::vector<std::uint64_t>& classes) {
  Set& set = sets_[which][op];
  over_pairs(classes, words * bits_of_word, [&](std::size_t bit) {
    set[bit / bits_of_word].fetch_or(std::uint64_t{1} << (bit % bits_of_word), std::memory_order_relaxed);
  });
}

std::size_t PairSets::lacks(Which which, std::size_t op, const std::vector<std::uint64_t>& classes) const {
  std::size_t found = 0;
  const Set& set = sets_[which][op];
  over_pairs(classes, words * bits_of_word, [&](std::size_t bit) {
    if ((set[bit / bits_of_word].load(std::memory_order_relaxed) >> (bit % bits_of_word) & 1) == 0) ++found;
  });
  return found;
}

bool PairSets::contains(Which which, std::size_t op, std::uint64_t a, std::uint64_t b) const {
  const std::size_t bit = bit_of(a, b, words * bits_of_word);
  return (sets_[which][op][bit / bits_of_word].load(std::memory_order_relaxed) >> (bit % bits_of_word) & 1) != 0;
}

std::int64_t PairSets::count(Which which, std::size_t op) const {
  std::int64_t bits = 0;
  for (const std::atomic<std::uint64_t>& word : sets_[which][op])
    bits += std::popcount(word.load(std::memory_order_relaxed));
  return bits;
}

std::size_t op_index(const Op& op) {
  const auto ops = all_ops();
  const auto found = std::ranges::find(ops, &op);
  return static_cast<std::size_t>((found == ops.end() ? std::ranges::find(ops, &find_op("row_program")) : found) -
                                  ops.begin());
}

}  // namespace tunesmith::test
