// Draws problems from the descriptions of operations.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "templates/row_program/shipped_op.h"
#include "tests/random/case.h"
#include "tests/random/chance.h"
#include "tests/random/layout.h"
#include "tests/random/texts.h"
#include "tunesmith/error.h"

namespace tunesmith::test {
namespace {

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

bool names(std::string_view message, std::string_view word) {
  for (std::size_t at = message.find(word); at != std::string_view::npos; at = message.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word_character(message[at - 1])) && (end == message.size() || !is_word_character(message[end])))
      return true;
  }
  return false;
}

const Op& op_of(std::uint64_t seed) {
  // Operations with many fields have many pairs.
  static const std::vector<const Op*> ops = [] {
    std::vector<const Op*> all;
    for (const Op* op : all_ops()) all.insert(all.end(), 1 + op->problem_fields().size() / 4, op);
    return all;
  }();
  // Some programs have no gradient, and so no problems.
  static const std::vector<const Op*> shipped = [] {
    std::vector<const Op*> all;
    for (const Op* op : shipped_program_ops()) try {
        static_cast<void>(op->describe_fields({}));
        all.push_back(op);
      } catch (const Error&) {
      }
    return all;
  }();
  Chance chance(mixed(seed, "op"));
  if (chance.with(0.03)) return *chance.one_of(shipped);
  return *chance.one_of(ops);
}

bool fits(const ParsedProblem& problem, const Sizes& sizes) {
  double bytes = 0;
  for (const ArrayInfo& array : problem.array_view()) bytes += static_cast<double>(array.extent_bytes());
  const Cost cost = problem.cost();
  return bytes <= sizes.max_bytes && cost.flops <= sizes.max_flops && cost.bytes() <= sizes.max_bytes;
}

namespace {

class Drawing {
 public:
  Drawing(std::uint64_t seed, const Op& op, const Sizes& sizes, const DeviceInfo& device)
      : chance_(seed), op_(op), sizes_(sizes), device_(device), texts_(chance_, op_) {}

  RandomCase make() {
    huge_ = chance_.with(0.05);
    density_ = chance_.one_of(std::array{0.05, 0.15, 0.3, 0.6});
    const std::size_t count = op_.problem_fields().size();
    for (std::size_t i = 0; i < count; ++i) draw_field(i);
    if (repair() && (huge_ || fit()) && chance_.with(0.6)) {
      const Fields contiguous = given_;
      draw_layout(chance_, op_, given_);
      if (repair() && !huge_ && !fits(*parsed_, sizes_)) {
        given_ = contiguous;
        repair();
      }
    }
    RandomCase made{{std::string(op_.name()), given_}};
    made.seed = chance_.bits() % 1000;
    made.values = draw_values();
    if (parsed_ == nullptr) return made;
    if (chance_.with(0.12))
      make_broken(made);
    else if (!huge_)
      draw_config(made);
    return made;
  }

  /// Draws the fields that `fixed` leaves open.
  ParsedProblemPtr complete(const Fields& fixed, bool layout) {
    given_ = fixed;
    density_ = chance_.one_of(std::array{0.0, 0.15, 0.3, 0.6});
    const std::vector<DescribedField> all = fields();
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!fixed.contains(all[i].name) && (layout || !all[i].facts.power_of_two)) draw_field(i);
    if (!repair()) return nullptr;
    if (layout) draw_layout(chance_, op_, given_);
    if (!repair()) return nullptr;
    const bool kept = std::ranges::all_of(
        fixed, [&](const auto& field) { return given_.contains(field.first) && *given_.find(field.first) == field.second; });
    return kept ? parsed_ : nullptr;
  }

  /// Draws some fields again, texts of users excepted.
  ParsedProblemPtr change(const Fields& fields_before) {
    given_ = fields_before;
    try {
      const std::vector<DescribedField> all = fields();
      for (auto i = 1 + chance_.below(4); i > 0; --i) {
        const DescribedField& field = chance_.one_of(all);
        if (field.kind == FieldKind::text && !field.facts.runtime) continue;
        if (is_stride(field.name) || !field.facts.only_with.holds) continue;
        if (!field.facts.required && chance_.with(0.3))
          remove(field.name);
        else
          draw_value(field);
      }
      if (chance_.with(0.4)) draw_layout(chance_, op_, given_);
      return op_.parse({std::string(op_.name()), given_});
    } catch (const Error&) {
      return nullptr;
    }
  }

 private:
  std::vector<DescribedField> fields() const { return op_.describe_fields(given_); }

  void remove(std::string_view name) {
    Fields kept;
    for (const auto& [field, value] : given_)
      if (field != name) kept.set(field, value);
    given_ = std::move(kept);
  }

  std::set<std::string, std::less<>> extents() const {
    std::set<std::string, std::less<>> names;
    for (const ArrayInfo& array : op_.describe_arrays(given_))
      for (const std::string& dim : array.dims) names.insert(dim.substr(0, dim.find(' ')));
    return names;
  }

  void draw_field(std::size_t index) {
    DescribedField field;
    try {
      field = fields()[index];
    } catch (const Error&) {
      return;  // a text is malformed, which repair() sees
    }
    if (is_stride(field.name)) return;
    if (!field.facts.only_with.holds && !chance_.with(0.002)) return;
    // Options that follow a condition are rare enough.
    const bool conditional = !field.facts.only_with.text.empty();
    if (!field.facts.required && !chance_.with(conditional ? 0.6 : density_)) return;
    draw_value(field);
  }

  void draw_value(const DescribedField& field) {
    switch (field.kind) {
      case FieldKind::flag: return given_.set(field.name, chance_.below(4) == 0 ? std::int64_t{0} : std::int64_t{1});
      case FieldKind::choice: return given_.set(field.name, std::string(chance_.one_of(field.choices)));
      case FieldKind::real: return given_.set(field.name, real(field));
      case FieldKind::integer: return given_.set(field.name, integer(field));
      case FieldKind::text: {
        std::optional<std::string> text;
        try {
          text = texts_.make(field, given_);
        } catch (const Error&) {
        }
        if (!text) return;
        given_.set(field.name, *text);
        if (field.name == "score_mod") remove("score_mod_grad");  // of another function, with other arrays
      }
    }
  }

  double real(const DescribedField& field) {
    const Range& range = field.facts.range;
    const double least = std::isfinite(range.min_real) ? range.min_real : -100;
    const double most = std::isfinite(range.max_real) ? range.max_real : 100;
    switch (chance_.below(8)) {
      case 0: return field.facts.zero_too ? 0 : least;
      case 1: return chance_.with(0.5) ? least : most;
      case 2: return std::clamp(1.0, least, most);
      case 3: return std::clamp(0.1, least, most);
      case 4: return std::clamp(std::exp2(chance_.real() * 40 - 20), least, most);
      default: return std::clamp(std::exp2(chance_.real() * 6 - 4), least, most);
    }
  }

  std::int64_t integer(const DescribedField& field) {
    const FieldFacts& facts = field.facts;
    std::int64_t least = facts.range.least, most = facts.range.most;
    constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::min();
    if (facts.power_of_two) {  // an alignment
      std::int64_t value = std::max<std::int64_t>(least, 1);
      for (auto i = chance_.below(5); i > 0 && value < std::min<std::int64_t>(most, 64); --i) value *= 2;
      return value;
    }
    if (least == unlimited && chance_.with(0.5))
      return chance_.one_of(std::array<std::int64_t, 6>{-100, -1, 0, 1, unlimited, most});
    if (least == unlimited) least = -2;
    if (facts.zero_too && chance_.with(0.2)) return 0;
    const bool extent = extents().contains(field.name);
    // Few are much longer: rows of many vectors, next to which there is room for few rows.
    const std::int64_t bound = std::min(most, least + (chance_.with(0.08) ? 20 * sizes_.longest : sizes_.longest));
    std::int64_t value = least;
    switch (chance_.below(12)) {
      case 0: break;
      case 1: value = least < most ? least + 1 : least; break;
      case 2:
        if (!extent || huge_ || most <= 256)
          value = most - (huge_ ? chance_.octave(0, most - least) : 0);
        else
          value = chance_.octave(least, bound);
        break;
      case 3: value = std::clamp(facts.follows.integer, least, most); break;
      case 4:
      case 5: {  // equal to another field, or next to it
        std::vector<std::int64_t> others;
        for (const auto& [name, other] : given_)
          if (std::holds_alternative<std::int64_t>(other)) others.push_back(std::get<std::int64_t>(other));
        if (!others.empty()) value = std::clamp(chance_.one_of(others) + chance_.below(3) - 1, least, bound);
        break;
      }
      case 6:
      case 7:
        value = std::clamp<std::int64_t>((chance_.octave(1, 16) * 8 + (chance_.with(0.3) ? 1 : 0)), least, bound);
        break;
      default: value = chance_.octave(least, bound);
    }
    value -= facts.step > 1 ? value % facts.step : 0;
    return std::clamp(value, least, most);
  }

  /// Changes the fields until the problem is valid. Some invalid problems stay, because their errors are checked, too.
  bool repair() {
    for (int tries = 0; tries < 40; ++tries) {
      std::string message;
      try {
        parsed_ = op_.parse({std::string(op_.name()), given_});
        return true;
      } catch (const Error& error) {
        message = error.what();
      }
      parsed_ = nullptr;
      if (chance_.with(0.02)) return false;
      std::vector<DescribedField> named, optional;
      try {
        for (const DescribedField& field : fields()) {
          if (names(message, field.name) && (given_.contains(field.name) || field.facts.required ||
                                             names(message, std::string(field.name) + " is missing")))
            named.push_back(field);
          if (given_.contains(field.name) && !field.facts.required) optional.push_back(field);
        }
      } catch (const Error&) {  // of a text
        for (const FieldInfo& info : op_.cached_fields())
          if (info.text && !info.default_text.empty()) remove(info.name);
        for (const FieldInfo& info : op_.cached_fields())
          if (info.text && given_.contains(info.name)) remove(info.name);
        continue;
      }
      if (named.empty()) named = optional;
      if (named.empty()) return false;
      const DescribedField& field = chance_.one_of(named);
      if (!given_.contains(field.name) || field.facts.required)
        draw_value(field);
      else if (is_stride(field.name) || !field.facts.only_with.holds || chance_.with(0.5))
        remove(field.name);
      else
        draw_value(field);
    }
    return false;
  }

  /// Halves the longest extents until the problem may run.
  bool fit() {
    for (int tries = 0; tries < 80; ++tries) {
      if (fits(*parsed_, sizes_)) return true;
      const std::set<std::string, std::less<>> sizes = extents();
      const DescribedField* longest = nullptr;
      std::int64_t most = 0;
      const std::vector<DescribedField> all = fields();
      for (const DescribedField& field : all) {
        if (field.kind != FieldKind::integer || !sizes.contains(field.name) || !field.value) continue;
        const std::int64_t value = std::get<std::int64_t>(*field.value),
                           least = std::max<std::int64_t>(field.facts.range.least, 0);
        if (value / 2 < std::max<std::int64_t>(least, 1) || value < most) continue;
        if (value == most && chance_.with(0.5)) continue;
        most = value;
        longest = &field;
      }
      if (longest == nullptr) return false;
      std::int64_t half = most / 2;
      half -= half % longest->facts.step;
      given_.set(longest->name, std::max(half, longest->facts.range.least));
      if (!repair()) return false;
    }
    return false;
  }

  Values draw_values() {
    if (chance_.with(0.4)) return Values::edge_cases;
    return static_cast<Values>(chance_.below(std::size(values_names)));
  }

  void draw_config(RandomCase& made) {
    if (chance_.with(0.3)) return;
    if (chance_.with(0.3) && draw_variant(made)) return;
    if (chance_.with(0.1))  // the kernel of a bucket of widths; others with its source have other widths
      if (const std::optional<Config> capacity = parsed_->capacity_config(device_)) {
        made.config = *capacity;
        return;
      }
    const std::vector<Config> space = parsed_->search_space(device_, Effort::full);
    if (space.empty()) return;
    std::set<std::string> variants;
    for (const Config& config : space) variants.insert(config.variant());
    const std::string variant = chance_.one_of(variants.empty() ? std::set<std::string>{""} : variants);
    std::vector<const Config*> of_variant;
    for (const Config& config : space)
      if (config.variant() == variant) of_variant.push_back(&config);
    made.config = *chance_.one_of(of_variant);
    if (!chance_.with(0.3)) return;
    // A pinned configuration may be outside of the search space.
    Config other = made.config;
    for (const auto& [name, value] : chance_.one_of(space).fields)
      if (name != "variant" && chance_.with(0.3) && other.fields.contains(name)) other.fields.set(name, value);
    if (parsed_->why_invalid(device_, other).empty()) made.config = other;
  }

  /// Pins a variant, which the search may not try for this problem.
  bool draw_variant(RandomCase& made) {
    for (const FieldInfo& field : op_.config_fields()) {
      if (field.name != "variant" || field.choices.empty()) continue;
      const Config partial{{{"variant", std::string(chance_.one_of(field.choices))}}};
      try {
        made.config = parsed_->complete_config(device_, partial);
        return true;
      } catch (const Error&) {  // this problem cannot have it
      }
    }
    return false;
  }

  /// Makes one field invalid.
  void make_broken(RandomCase& made) {
    std::vector<DescribedField> all;
    try {
      all = fields();
    } catch (const Error&) {
      return;
    }
    const DescribedField& field = chance_.one_of(all);
    const Range& range = field.facts.range;
    std::optional<Value> value;
    if (chance_.with(0.1)) {
      made.broken = std::string(field.name) + "_";
      made.problem.fields.set(made.broken, std::int64_t{1});
      return;
    }
    switch (field.kind) {
      case FieldKind::flag: value = chance_.with(0.5) ? Value(std::int64_t{2}) : Value(std::string("yes")); break;
      case FieldKind::choice: value = chance_.with(0.7) ? Value(std::string("no_such")) : Value(std::int64_t{1}); break;
      case FieldKind::real:
        if (chance_.with(0.3))
          value = std::string("much");
        else if (chance_.with(0.3))
          value = std::numeric_limits<double>::quiet_NaN();
        else if (chance_.with(0.5) && std::isfinite(range.max_real))
          value = range.max_real + 1 + std::fabs(range.max_real) / 2;
        else if (std::isfinite(range.min_real) && !(field.facts.zero_too && range.min_real == 0))
          value = range.min_real - 1 - std::fabs(range.min_real) / 2;
        break;
      case FieldKind::integer:
        if (chance_.with(0.2))
          value = chance_.with(0.5) ? Value(std::string("many")) : Value(1.5);
        else if (chance_.with(0.5) && range.least > std::numeric_limits<std::int64_t>::min() &&
                 !(field.facts.zero_too && range.least == 1))
          value = range.least - 1;
        else if (range.most < std::numeric_limits<std::int64_t>::max() && field.facts.cap == 0)
          value = range.most + 1;
        else if (field.facts.power_of_two)
          value = std::int64_t{48};
        break;
      case FieldKind::text: break;
    }
    if (!value) return;
    made.broken = field.name;
    made.problem.fields.set(field.name, *value);
  }

  Chance chance_;
  const Op& op_;
  const Sizes& sizes_;
  const DeviceInfo& device_;
  Texts texts_;
  Fields given_;
  ParsedProblemPtr parsed_;
  bool huge_ = false;
  double density_ = 0.3;
};

}  // namespace

RandomCase draw(std::uint64_t seed, const Sizes& sizes, const DeviceInfo& device) {
  return Drawing(seed, op_of(seed), sizes, device).make();
}

ParsedProblemPtr draw_rest(const Op& op, const Fields& fixed, bool layout, std::uint64_t seed, const Sizes& sizes,
                           const DeviceInfo& device) {
  return Drawing(seed, op, sizes, device).complete(fixed, layout);
}

ParsedProblemPtr draw_change(const ParsedProblem& problem, std::uint64_t seed, const Sizes& sizes,
                             const DeviceInfo& device) {
  return Drawing(seed, problem.op(), sizes, device).change(problem.problem().fields);
}

ParsedProblemPtr draw_runtime_change(const ParsedProblem& problem, std::uint64_t seed, const DeviceInfo& device) {
  const ParsedProblemPtr changed = draw_change(problem, seed, large_sizes, device);
  if (changed == nullptr) return nullptr;
  Fields fields = changed->problem().fields;
  for (const FieldInfo& info : problem.op().cached_fields()) {
    if (info.runtime) continue;
    const Value* const before = problem.problem().fields.find(info.name);
    if ((before != nullptr) != fields.contains(info.name)) return nullptr;
    if (before != nullptr) fields.set(info.name, *before);
  }
  try {
    return problem.op().parse({problem.problem().op, fields});
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace tunesmith::test
