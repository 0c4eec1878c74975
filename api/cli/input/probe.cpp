#include "api/cli/input/probe.h"

#include <algorithm>
#include <array>

#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

bool is_accepted(const Op& op, const Problem& problem) {
  try {
    (void)op.normalize(problem);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Whether the operation's description lists its arrays.
bool is_described(const Op& op) { return !op.describe_arrays({}).empty(); }

/// "batch + 1": the field batch, and 1 more. No field for a number or another quantity.
Extent parse_extent(const Op& op, const std::string& dim) {
  const std::string name = dim.substr(0, dim.find(' '));
  for (const FieldInfo& field : op.problem_fields())
    if (field.name == name) return {name, dim.size() == name.size() ? 0 : std::stoll(dim.substr(dim.find('+') + 1))};
  return {};
}

// Lengths of the probe, and what each is changed to. Divisors and multiples: some are allowed whatever a length goes with
// (heads shared by kv_heads), and multiples of 8 suit those that come in steps.
constexpr std::int64_t usual_length = 48;
constexpr std::array<std::int64_t, 6> other_lengths{96, 144, 24, 16, 12, 8};

/// The problem's arrays when a field has another value.
struct Trial {
  std::int64_t value;
  std::vector<ArrayInfo> arrays;
};

/// Two values that are allowed; fewer when there are none.
std::vector<Trial> trials_of(const Op& op, Problem problem, std::string_view field) {
  std::vector<Trial> trials;
  for (const std::int64_t value : other_lengths) {
    problem.fields.set(field, value);
    try {
      trials.push_back({value, op.parse(problem)->arrays()});
    } catch (const Error&) {
    }
    if (trials.size() == 2) break;
  }
  return trials;
}

/// Calls visit(array, dimension, more) for each extent that the field's value, or so much more, is in both trials.
template <typename Visit>
void over_extents(const std::vector<Trial>& trials, const Visit& visit) {
  if (trials.size() < 2) return;
  for (const ArrayInfo& array : trials[0].arrays) {
    const auto other = std::ranges::find(trials[1].arrays, array.name, &ArrayInfo::name);
    if (other == trials[1].arrays.end() || other->shape.size() != array.shape.size()) continue;
    for (std::size_t d = 0; d < array.shape.size(); ++d)
      if (const std::int64_t more = array.shape[d] - trials[0].value; other->shape[d] - trials[1].value == more)
        visit(array.name, d, more);
  }
}

bool is_length(const Op& op, const Problem& problem, std::string_view field) {
  bool found = false;
  over_extents(trials_of(op, problem, field), [&](const std::string&, std::size_t, std::int64_t) { found = true; });
  return found;
}

}  // namespace

bool Probe::read_description(const Problem& given) {
  if (!is_described(op_)) return false;
  for (const FieldInfo& field : op_.problem_fields())
    if (const Value* value = given.fields.find(field.name); value != nullptr && !field.option)
      plain_.fields.set(field.name, *value);
  for (const ArrayInfo& array : op_.describe_arrays(plain_.fields))
    if (array.present) always_.insert(array.name);
  problem_ = given;
  for (ArrayInfo& array : op_.describe_arrays(given.fields)) {
    if (!array.present) continue;
    for (const std::string& dim : array.dims) extents_[array.name].push_back(parse_extent(op_, dim));
    arrays_.push_back(std::move(array));
  }
  return true;
}

std::optional<ArrayInfo> Probe::input_with(std::string_view field, const Value& value, const std::string& array) const {
  Problem problem = problem_;
  problem.fields.set(field, value);
  try {
    for (ArrayInfo& info : is_described(op_) ? op_.describe_arrays(problem.fields) : op_.parse(problem)->arrays())
      if (info.name == array && info.input && info.present) return std::move(info);
  } catch (const Error&) {
  }
  return std::nullopt;
}

Probe::Probe(const Op& op, const Problem& given) : op_(op), plain_{given.op, {}} {
  if (read_description(given)) return;
  const std::vector<FieldInfo> fields = op.problem_fields();
  for (const FieldInfo& field : fields)
    if (const Value* value = given.fields.find(field.name); !field.words.empty() && !field.option && value != nullptr)
      plain_.fields.set(field.name, *value);
    else if (field.default_text.empty())
      plain_.fields.set(field.name, usual_length);
  problem_ = plain_;
  for (const FieldInfo& field : fields)
    if (const Value* value = given.fields.find(field.name); !field.words.empty() && field.option && value != nullptr)
      problem_.fields.set(field.name, *value);
  // Options may need a user source; one that is valid only with the true lengths is omitted.
  Problem with_texts = problem_;
  for (const FieldInfo& field : fields)
    if (const Value* value = given.fields.find(field.name); field.text && value != nullptr)
      with_texts.fields.set(field.name, *value);
  if (is_accepted(op, with_texts)) problem_ = std::move(with_texts);
  (void)op.normalize(problem_);
  choose_lengths(given);
  arrays_ = op.parse(problem_)->arrays();
  for (const ArrayInfo& array : op.parse(plain_)->arrays()) always_.insert(array.name);
  find_extents();
}

/// Every length gets a value of its own, so that none follows another as its default; other numbers are taken as given.
void Probe::choose_lengths(const Problem& given) {
  const std::vector<FieldInfo> fields = op_.problem_fields();
  // One may be found only after another (kv_heads is 1 where heads is): until there are no more.
  std::size_t known = 0;
  do {
    known = lengths_.size();
    for (const FieldInfo& field : fields) {
      if (!field.words.empty() || std::ranges::find(lengths_, field.name) != lengths_.end()) continue;
      Problem more = problem_;
      if (is_length(op_, problem_, field.name)) {
        lengths_.emplace_back(field.name);
        more.fields.set(field.name, usual_length);
      } else if (const Value* value = given.fields.find(field.name); value != nullptr && !field.default_text.empty()) {
        more.fields.set(field.name, *value);
      }
      if (is_accepted(op_, more)) problem_ = std::move(more);
    }
  } while (lengths_.size() > known);
}

void Probe::find_extents() {
  for (const ArrayInfo& array : arrays_) extents_[array.name].resize(array.shape.size());
  for (const std::string& field : lengths_)
    over_extents(trials_of(op_, problem_, field), [&](const std::string& array, std::size_t dimension, std::int64_t more) {
      const auto known = extents_.find(array);
      if (known != extents_.end() && dimension < known->second.size()) known->second[dimension] = {field, more};
    });
}

}  // namespace tunesmith::cli
