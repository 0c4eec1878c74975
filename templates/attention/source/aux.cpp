#include "templates/attention/source/aux.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <limits>

#include "core/utf8.h"
#include "templates/op.h"
#include "tunesmith/error.h"

namespace tunesmith::attention {
namespace {

/// Returns whether an operation that takes user arrays, forward or backward, has an array of its own with this name.
bool is_reserved(std::string_view name) {
  static const std::vector<std::string> reserved = [] {
    std::vector<std::string> names;
    for (const Op* const op : all_ops())
      if (std::ranges::find(op->cached_fields(), "aux", &FieldInfo::name) != op->cached_fields().end())
        for (const ArrayInfo& array : op->describe_arrays({})) names.push_back(array.name);
    return names;
  }();
  return std::ranges::find(reserved, name) != reserved.end();
}

constexpr std::array<std::pair<std::string_view, DType>, 6> types{{{"f32", DType::f32},
                                                                   {"f16", DType::f16},
                                                                   {"bf16", DType::bf16},
                                                                   {"i32", DType::i32},
                                                                   {"i64", DType::i64},
                                                                   {"u8", DType::u8}}};
constexpr const char* allowed_types = "allowed: f32, f16, bf16, i32, i64 and u8 for arrays, f32, i32 and i64 for numbers";

// Keywords that somebody might use as a name; the compiler knows the rest.
constexpr std::array<std::string_view, 24> keywords{
    "auto",  "bool", "break", "case", "char", "class", "const",  "default", "delete", "do",   "double",   "else",
    "float", "for",  "if",    "int",  "long", "new",   "return", "short",   "switch", "this", "unsigned", "void"};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_identifier(std::string_view text) {
  return !text.empty() && is_letter(text[0]) &&
         std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c); });
}

std::string without_blanks(std::string_view text) {
  std::string result(text);
  std::erase_if(result, is_blank);
  return result;
}

/// Evaluates sums of products; rejects what overflows.
class SizeReader {
 public:
  SizeReader(const Aux& aux, std::span<const Dimension> dimensions) : aux_(aux), text_(aux.size), dimensions_(dimensions) {}

  std::int64_t read() {
    const std::int64_t value = sum();
    if (at_ != text_.size()) fail();
    return value;
  }

 private:
  [[noreturn]] void fail() const {
    std::string names;
    for (const auto& [name, value] : dimensions_) names += ", " + std::string(name);
    throw Error(ErrorCode::invalid_argument, "aux declares ", aux_.text(), ", and '", aux_.size, "' is no ",
                aux_.is_array ? "length" : "value",
                "; expected an integer of 64 bits, or sums and products of integers and of dimensions of the problem",
                names);
  }

  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::int64_t subtracted(std::int64_t from, std::int64_t value) const {
    std::int64_t result = 0;
    if (__builtin_sub_overflow(from, value, &result)) fail();
    return result;
  }
  std::int64_t sum() {
    std::int64_t result = take('-') ? subtracted(0, product()) : product();
    for (;;) {
      if (take('+'))
        result = subtracted(result, subtracted(0, product()));
      else if (take('-'))
        result = subtracted(result, product());
      else
        return result;
    }
  }
  std::int64_t product() {
    std::int64_t result = factor();
    while (take('*'))
      if (__builtin_mul_overflow(result, factor(), &result)) fail();
    return result;
  }
  std::int64_t factor() {
    if (take('(')) {
      if (++depth_ > 16) fail();
      const std::int64_t value = sum();
      if (!take(')')) fail();
      --depth_;
      return value;
    }
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    for (const auto& [name, value] : dimensions_)
      if (word == name) return value;
    std::int64_t value = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
    if (word.empty() || read.ec != std::errc() || read.ptr != word.data() + word.size()) fail();
    return value;
  }

  const Aux& aux_;
  const std::string_view text_;
  const std::span<const Dimension> dimensions_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

Aux parse_one(std::string_view declaration, std::string_view argument) {
  const std::string text = without_blanks(declaration);
  const auto fail = [&](const auto&... parts) {
    throw Error(ErrorCode::invalid_argument, argument, " declares '", text, "'; ", parts...);
  };
  constexpr const char* form =
      "expected NAME:TYPE[LENGTH] for an array, NAME:TYPE=VALUE for a number, divided by semicolons";
  const std::size_t colon = text.find(':');
  const std::size_t end_of_type = text.find_first_of("[=", colon == std::string::npos ? 0 : colon);
  if (colon == std::string::npos || end_of_type == std::string::npos) fail(form);
  Aux aux;
  aux.name = text.substr(0, colon);
  aux.is_array = text[end_of_type] == '[';
  if (aux.is_array && !text.ends_with(']')) fail(form);
  aux.size = text.substr(end_of_type + 1);
  if (aux.is_array) aux.size.pop_back();
  if (aux.size.empty()) fail(form);

  if (!is_identifier(aux.name) || std::ranges::find(keywords, aux.name) != keywords.end())
    fail("'", aux.name, "' is no name of a C++ variable");
  if (is_reserved(aux.name))
    fail("an array of attention or of its backward pass has the name '", aux.name, "'; give another");
  const std::string type = text.substr(colon + 1, end_of_type - colon - 1);
  const auto known = std::ranges::find(types, std::string_view(type), &std::pair<std::string_view, DType>::first);
  if (known == types.end()) fail("'", type, "' is no type; ", allowed_types);
  aux.dtype = known->second;
  if (!aux.is_array && aux.dtype != DType::f32 && aux.dtype != DType::i32 && aux.dtype != DType::i64)
    fail("a number cannot be ", type, "; ", allowed_types);
  return aux;
}

/// An integer where the text is one as it would be printed, else the expression itself.
Value size_value(const std::string& text) {
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec == std::errc() && std::to_string(value) == text) return value;
  return text;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

Aux Aux::of(const AttentionAux& aux) {
  return {aux.name, aux.dtype, aux.length.has_value(), without_blanks(tunesmith::text(aux.length.value_or(aux.value)))};
}

AttentionAux Aux::typed() const {
  AttentionAux aux{.name = name, .dtype = dtype};
  if (is_array)
    aux.length = size_value(size);
  else
    aux.value = size_value(size);
  return aux;
}

std::string Aux::type_text() const { return name + ":" + std::string(tunesmith::name(dtype)) + (is_array ? "[]" : ""); }

std::string Aux::text() const {
  return name + ":" + std::string(tunesmith::name(dtype)) + (is_array ? "[" + size + "]" : "=" + size);
}

std::int64_t Aux::length(std::span<const Dimension> dimensions) const {
  const std::int64_t elements = SizeReader(*this, dimensions).read();
  constexpr std::int64_t most = std::int64_t{1} << 40;
  if (elements < 0 || elements > most)
    throw Error(ErrorCode::invalid_argument, "aux declares ", text(), ", which is ", elements,
                " elements long; allowed: 0 to ", most);
  return elements;
}

std::uint64_t Aux::bits(std::span<const Dimension> dimensions) const {
  if (dtype == DType::f32) {
    float value = 0;
    const auto read = std::from_chars(size.data(), size.data() + size.size(), value);
    if (read.ec != std::errc() || read.ptr != size.data() + size.size())
      value = static_cast<float>(SizeReader(*this, dimensions).read());
    return std::bit_cast<std::uint32_t>(value);
  }
  const std::int64_t value = SizeReader(*this, dimensions).read();
  using Narrow = std::numeric_limits<std::int32_t>;
  if (dtype == DType::i32 && (value < Narrow::min() || value > Narrow::max()))
    throw Error(ErrorCode::invalid_argument, "aux declares ", text(), ", which is ", value,
                "; allowed for i32: ", Narrow::min(), " to ", Narrow::max());
  return static_cast<std::uint64_t>(value);
}

std::vector<Aux> parse_aux(std::string_view declarations, std::string_view argument) {
  std::vector<Aux> all;
  while (!declarations.empty()) {
    const std::string_view declaration = declarations.substr(0, declarations.find(';'));
    declarations.remove_prefix(std::min(declarations.size(), declaration.size() + 1));
    if (trimmed(declaration).empty()) continue;
    Aux aux = parse_one(declaration, argument);
    if (std::ranges::find(all, aux.name, &Aux::name) != all.end())
      throw Error(ErrorCode::invalid_argument, argument, " declares '", aux.name, "' twice");
    all.push_back(std::move(aux));
  }
  return all;
}

std::string aux_lines(std::string_view source) {
  constexpr std::string_view mark = "aux:";
  std::string declarations;
  source = without_mark(source);
  while (!source.empty()) {
    const std::string_view whole = source.substr(0, source.find('\n'));
    source.remove_prefix(std::min(source.size(), whole.size() + 1));
    std::string_view line = trimmed(whole);
    if (line.empty()) continue;
    if (!line.starts_with("//")) break;
    line = trimmed(line.substr(2));
    if (line.starts_with(mark)) declarations += std::string(line.substr(mark.size())) + ";";
  }
  return declarations;
}

std::vector<Aux> merged(std::vector<Aux> earlier, const std::vector<Aux>& later) {
  for (const Aux& aux : later) {
    const auto same = std::ranges::find(earlier, aux.name, &Aux::name);
    if (same == earlier.end())
      earlier.push_back(aux);
    else
      *same = aux;
  }
  return earlier;
}

}  // namespace tunesmith::attention

namespace tunesmith {

Value FieldType<std::vector<AttentionAux>>::get(const std::vector<AttentionAux>& member) {
  std::string text;
  for (const AttentionAux& aux : member) text += (text.empty() ? "" : ";") + attention::Aux::of(aux).text();
  return text;
}

void FieldType<std::vector<AttentionAux>>::set(std::vector<AttentionAux>& member, const Value& value) {
  member.clear();
  for (const attention::Aux& aux : attention::parse_aux(std::get<std::string>(value), "aux")) member.push_back(aux.typed());
}

}  // namespace tunesmith
