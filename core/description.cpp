#include "tunesmith/description.h"

#include <bit>

#include "core/nearest.h"
#include "tunesmith/dispatch.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

constexpr std::int64_t unbounded = std::numeric_limits<std::int64_t>::max();

std::string joined(const std::vector<std::string_view>& words, std::string_view separator) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : std::string(separator)) + std::string(word);
  return text;
}

/// "a", "a and b" or "a, b and c".
std::string listed(std::vector<std::string_view> words) {
  const std::string_view last = words.back();
  words.pop_back();
  return words.empty() ? std::string(last) : joined(words, ", ") + " and " + std::string(last);
}

/// Multiplies; returns the largest number instead of overflowing.
std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? unbounded : result;
}

std::vector<std::int64_t> strides_of(const ArrayFacts& array) {
  if (array.strides.count > 0) return {array.strides.begin(), array.strides.end()};
  std::vector<std::int64_t> strides(array.shape.count);
  std::int64_t stride = 1;
  for (std::size_t i = strides.size(); i-- > 0;) {
    strides[i] = stride;
    stride = product(stride, array.shape.items[i].value);
  }
  return strides;
}

/// Returns an array's layout, without texts for readers.
ArrayInfo layout_of(const ArrayFacts& array) {
  ArrayInfo info;
  info.name = array.name;
  info.input = array.role != Role::output;
  info.output = array.role != Role::input;
  info.optional = array.optional;
  info.dtype = array.dtype;
  info.shape.reserve(array.shape.count);
  for (const Extent& extent : array.shape) info.shape.push_back(extent.value);
  info.strides = strides_of(array);
  info.alignment = size_of(array.dtype);
  if (array.alignment != nullptr)
    info.alignment = *array.alignment;
  else if (array.aligned_to != 0)
    info.alignment = array.aligned_to;
  info.in_place_of = array.in_place_of;
  info.present = array.present;
  return info;
}

}  // namespace

Value Description::Entry::generic(const Value& value) const {
  if (access->kind != FieldKind::choice) return value;
  const auto at = static_cast<std::size_t>(std::get<std::int64_t>(value));
  return std::string(at < access->names.size() ? access->names[at] : "unknown");  // a typed problem may hold any number
}

std::vector<std::string_view> Description::Entry::words() const {
  std::vector<std::string_view> allowed;
  for (std::size_t i = 0; i < access->names.size(); ++i)
    if ((facts.choices >> i & 1) != 0) allowed.push_back(access->names[i]);
  return allowed;
}

Value Description::Entry::follows() const {
  if (access->kind == FieldKind::real) return facts.follows.real;
  return facts.follows.integer;
}

std::string Description::Entry::range_text() const {
  const Range& range = facts.range;
  switch (access->kind) {
    case FieldKind::flag: return "0 to 1";
    case FieldKind::choice: return joined(words(), ", ");
    case FieldKind::text: return {};
    case FieldKind::real: {
      if (range.min_real == -std::numeric_limits<double>::infinity()) return {};
      return (facts.zero_too ? "0, or " : "") + tunesmith::text(range.min_real) + " to " + tunesmith::text(range.max_real);
    }
    case FieldKind::integer: break;
  }
  if (range.least == std::numeric_limits<std::int64_t>::min() && range.most == unbounded && facts.step == 1) return {};
  const std::string least = std::to_string(range.least), most = std::to_string(range.most);
  std::string text = facts.zero_too ? "0, or " : "";
  if (facts.power_of_two) return text + "a power of two from " + least + (facts.cap != 0 ? " up" : " to " + most);
  text += range.most == std::numeric_limits<std::int64_t>::max() ? "at least " + least : least + " to " + most;
  return facts.step == 1 ? text : text + " in steps of " + std::to_string(facts.step);
}

Value Description::Entry::parsed(const Fields& given) const {
  switch (access->kind) {
    case FieldKind::integer:
    case FieldKind::flag: {
      const std::int64_t value = given.integer(name);
      if (access->kind == FieldKind::flag && value != 0 && value != 1) check(value);
      return value;
    }
    case FieldKind::real: return given.real(name);
    case FieldKind::text: return given.string(name);
    case FieldKind::choice: break;
  }
  const std::string& word = given.string(name);
  const auto found = std::ranges::find(access->names, std::string_view(word));
  if (found == access->names.end()) {
    const std::vector<std::string_view> allowed = words();
    const std::string_view nearest = nearest_name(word, allowed);
    throw Error(ErrorCode::invalid_argument, name, " is '", word, "'; allowed: ", range_text(),
                nearest.empty() ? "" : "; did you mean '" + std::string(nearest) + "'?");
  }
  return std::int64_t{found - access->names.begin()};
}

void Description::Entry::check(const Value& value) const {
  bool allowed = true;
  if (access->kind == FieldKind::real) {
    const double real = std::get<double>(value);
    allowed = real >= facts.range.min_real && real <= facts.range.max_real;
    allowed = allowed || (facts.zero_too && real == 0);
  } else if (access->kind != FieldKind::text) {
    const std::int64_t integer = std::get<std::int64_t>(value);
    if (access->kind == FieldKind::flag) {
      allowed = integer == 0 || integer == 1;
    } else if (access->kind == FieldKind::choice) {
      allowed = integer >= 0 && integer < static_cast<std::int64_t>(access->names.size()) &&
                (facts.choices >> static_cast<unsigned>(integer) & 1) != 0;
    } else {
      allowed = integer >= facts.range.least && integer <= facts.range.most && integer % facts.step == 0 &&
                (!facts.power_of_two || std::has_single_bit(static_cast<std::uint64_t>(integer)));
      allowed = allowed || (facts.zero_too && integer == 0);
    }
  }
  if (allowed) return;
  const std::string quote = access->kind == FieldKind::choice ? "'" : "";
  throw Error(ErrorCode::invalid_argument, name, " is ", quote, tunesmith::text(generic(value)), quote,
              "; allowed: ", range_text());
}

void Description::Entry::reject_without_condition(const Value& value) const {
  throw Error(ErrorCode::invalid_argument, name, " is ", tunesmith::text(value), "; allowed: only with ",
              facts.only_with.text);
}

void Description::read(std::string_view owner, const Fields& given) {
  std::vector<std::string_view> known;
  for (const Entry& entry : fields_) known.push_back(entry.name);
  for (const auto& item : given) {
    if (std::ranges::find(known, std::string_view(item.first)) != known.end()) continue;
    const std::string_view nearest = nearest_name(item.first, known);
    throw Error(
        ErrorCode::invalid_argument, "'", item.first, "' is not a field of ", owner,
        nearest.empty() ? "; allowed: " : "; did you mean '" + std::string(nearest) + "'? Allowed: ", joined(known, ", "));
  }
  std::vector<std::string_view> required;
  for (const Entry& entry : fields_)
    if (entry.facts.required && entry.facts.only_with.holds) required.push_back(entry.name);
  for (const std::string_view name : required)
    if (!given.contains(name))
      throw Error(ErrorCode::invalid_argument, name, " is missing; ", owner, " needs ", listed(required));
  read_known(given);
}

void Description::read_known(const Fields& given) {
  for (const Entry& entry : fields_)
    if (given.contains(entry.name)) entry.set(entry.parsed(given));
}

void Description::check(const Fields& given) const {
  const Entry* misplaced = nullptr;  // a value out of range may be why the condition of another field does not hold
  for (const Entry& entry : fields_) {
    const bool is_given = given.contains(entry.name);
    if (is_given && !entry.facts.only_with.holds) {
      misplaced = misplaced == nullptr ? &entry : misplaced;
    } else if (is_given) {
      entry.check(entry.parsed(given));
    } else if (const std::optional<Value> value = entry.get(); value && entry.facts.only_with.holds) {
      entry.check(*value);
    }
  }
  if (misplaced != nullptr) misplaced->reject_without_condition(*given.find(misplaced->name));
}

void Description::check_as_given(const Description& defaults) const {
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const Entry& entry = fields_[i];
    const std::optional<Value> value = entry.get();
    if (!value) continue;
    if (entry.facts.only_with.holds)
      entry.check(*value);
    else if (!((entry.option || entry.facts.omit_default) && value == defaults.fields_[i].get()))
      entry.reject_without_condition(entry.generic(*value));
  }
}

bool fits_memory(const ArrayFacts& array) noexcept {
  constexpr double max_bytes = 0x1p56;
  if (!array.present) return true;
  double elements = 1;
  std::int64_t packed = 1;
  bool empty = false;
  for (std::size_t i = array.shape.count; i-- > 0;) {
    const std::int64_t extent = array.shape.items[i].value;
    const std::int64_t stride = array.strides.count > 0 ? array.strides.items[i] : packed;
    packed = product(packed, extent);
    empty = empty || extent == 0;
    elements += (static_cast<double>(extent) - 1) * static_cast<double>(stride);
  }
  return empty || elements * static_cast<double>(size_of(array.dtype)) <= max_bytes;
}

void Description::check_extents() const {
  for (const ArrayFacts& array : arrays_) {
    if (fits_memory(array)) continue;
    const std::vector<std::int64_t> strides = strides_of(array);
    std::string extents, steps;
    for (std::size_t i = 0; i < array.shape.count; ++i) {
      const Extent& extent = array.shape.items[i];
      extents += (i == 0 ? "" : ", ") + dim_text(extent) + " is " + std::to_string(extent.value);
      steps += (i == 0 ? "" : ", ") + std::to_string(strides[i]);
    }
    throw Error(ErrorCode::invalid_argument, array.name, " would span more than 2^56 bytes: ", extents, ", strides ", steps,
                " of ", size_of(array.dtype), " bytes");
  }
}

void check_address(const void* address, const ArrayFacts& array) {
  if (!array.present && address != nullptr)
    throw Error(ErrorCode::invalid_argument, array.name,
                " is given, but the problem does not have it; expected nullptr, or a problem that has it");
  if (!array.present || (array.optional && address == nullptr)) return;
  // Without elements nothing is touched, and an address may be anything.
  if (std::ranges::any_of(array.shape, [](const Extent& extent) { return extent.value <= 0; })) return;
  if (address == nullptr) throw Error(ErrorCode::invalid_argument, array.name, " is a null pointer; expected device memory");
  const std::int64_t promised = array.alignment == nullptr ? array.aligned_to : 0;  // the problem has the address's own
  const std::int64_t element = std::max<std::int64_t>(promised, std::max<std::int64_t>(size_of(array.dtype), 1));
  if (reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(element) != 0)
    throw Error(ErrorCode::invalid_argument, array.name, " is at ", address, "; ", name(array.dtype),
                " needs an address that is a multiple of ", element, " bytes");
}

void Description::resolve() {
  for (const Entry& entry : fields_) {
    const FieldFacts& facts = entry.facts;
    std::optional<Value> value = entry.get();
    if (!value && !facts.follows.text.empty() && facts.only_with.holds) entry.set(*(value = entry.follows()));
    if (value && facts.cap != 0 && std::get<std::int64_t>(*value) > facts.cap) entry.set(facts.cap);
  }
}

void Description::check_defaults() const {
  for (const Entry& entry : fields_) {
    if (entry.access->kind != FieldKind::integer || entry.facts.follows.text.empty() || !entry.facts.only_with.holds)
      continue;
    if (entry.facts.follows.integer <= entry.facts.range.most) continue;
    const std::optional<Value> value = entry.get();
    if (value == entry.follows()) entry.check(*value);
  }
}

Fields Description::form(const Description& defaults, bool normal) const {
  constexpr std::size_t usual_options = 2;
  const auto is_always_listed = [](const Entry& entry) { return !entry.option && !entry.facts.omit_default; };
  Fields fields;
  fields.reserve(static_cast<std::size_t>(std::ranges::count_if(fields_, is_always_listed)) + usual_options);
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const Entry& entry = fields_[i];
    if (normal && !entry.facts.only_with.holds) continue;
    std::optional<Value> value = entry.get();
    if (!value) continue;
    if (entry.option || entry.facts.omit_default) {
      std::optional<Value> usual = defaults.fields_[i].get();
      if (normal && !usual && !entry.facts.follows.text.empty()) usual = entry.follows();
      if (value == usual) continue;
    }
    fields.append(entry.name, entry.access->kind == FieldKind::choice ? entry.generic(*value) : std::move(*value));
  }
  return fields;
}

Fields Description::normal_form(const Description& defaults) const { return form(defaults, true); }
Fields Description::given_form(const Description& defaults) const { return form(defaults, false); }

std::vector<FieldInfo> Description::field_infos() const {
  std::vector<FieldInfo> infos;
  for (const Entry& entry : fields_) {
    FieldInfo info{entry.name, entry.facts.meaning, {}, {}};
    if (const std::optional<Value> value = entry.get(); !entry.access->optional)
      info.default_text = entry.facts.required ? "" : tunesmith::text(entry.generic(*value));
    else
      info.default_text = entry.facts.follows.text.empty() ? "none" : std::string(entry.facts.follows.text);
    if (entry.access->kind == FieldKind::text && info.default_text.empty() && !entry.facts.required)
      info.default_text = "none";
    info.choices = entry.words();
    info.option = entry.option;
    info.kind = entry.access->kind;
    info.text = info.kind == FieldKind::text;
    info.bare = info.kind == FieldKind::flag ? "1" : entry.facts.bare;
    info.range_text = info.kind == FieldKind::choice ? "" : entry.range_text();
    info.hidden = entry.facts.hidden;
    info.runtime = entry.facts.runtime;
    infos.push_back(std::move(info));
  }
  return infos;
}

std::vector<DescribedField> Description::described_fields() const {
  std::vector<DescribedField> described;
  for (const Entry& entry : fields_) {
    std::optional<Value> value = entry.get();
    if (value) value = entry.generic(*value);
    described.push_back({entry.name, entry.access->kind, entry.facts, entry.option, entry.access->optional, entry.words(),
                         std::move(value)});
  }
  return described;
}

std::string Description::dim_text(const Extent& extent) const {
  if (extent.field == nullptr) return extent.text.empty() ? std::to_string(extent.value) : std::string(extent.text);
  std::string text(name_of(extent.field));
  if (extent.plus != 0) text.append(" + ").append(std::to_string(extent.plus));
  return text;
}

std::string_view Description::name_of(const void* member) const {
  if (member == nullptr) return {};
  const auto found = std::ranges::find(fields_, member, &Entry::member);
  return found == fields_.end() ? std::string_view() : found->name;
}

void Description::add_texts(const ArrayFacts& array, ArrayInfo& info) const {
  info.dims.reserve(array.shape.count);
  for (const Extent& extent : array.shape) info.dims.push_back(dim_text(extent));
  info.alignment_field = name_of(array.alignment);
  info.in_place_field = name_of(array.in_place != nullptr ? array.in_place : array.in_place_choice);
  info.meaning = array.meaning;
}

std::vector<ArrayInfo> Description::array_infos(bool all) const {
  std::vector<ArrayInfo> infos;
  for (const ArrayFacts& array : arrays_)
    if (array.present || all) add_texts(array, infos.emplace_back(layout_of(array)));
  return infos;
}

std::vector<ArrayInfo> Description::array_layouts() const {
  std::vector<ArrayInfo> layouts;
  layouts.reserve(static_cast<std::size_t>(std::ranges::count_if(arrays_, &ArrayFacts::present)));
  for (const ArrayFacts& array : arrays_)
    if (array.present) layouts.push_back(layout_of(array));
  return layouts;
}

Fields Description::infer(std::string_view array, std::span<const std::int64_t> shape) const {
  Fields fields;
  for (const ArrayFacts& facts : arrays_) {
    if (facts.name != array || facts.shape.count != shape.size()) continue;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const Extent& extent = facts.shape.items[i];
      for (const Entry& entry : fields_)
        if (extent.field != nullptr && entry.member == extent.field) fields.set(entry.name, shape[i] - extent.plus);
    }
  }
  return fields;
}

}  // namespace tunesmith
