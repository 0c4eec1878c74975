#include "api/cli/input/npy_header.h"

#include <array>
#include <charconv>
#include <limits>

#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

struct TypeName {
  NpyType type;
  std::string_view descr;
  std::int64_t bytes;
};
constexpr std::array<TypeName, 8> type_names{{{NpyType::f4, "<f4", 4},
                                              {NpyType::f2, "<f2", 2},
                                              {NpyType::u2, "<u2", 2},
                                              {NpyType::u1, "|u1", 1},
                                              {NpyType::i4, "<i4", 4},
                                              {NpyType::i8, "<i8", 8},
                                              {NpyType::i1, "|i1", 1},
                                              {NpyType::f8, "<f8", 8}}};

template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Error(ErrorCode::io, parts...);
}

/// The subset of Python's literals that the format allows: one dictionary of strings, booleans and a tuple of integers.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  NpyHeader dictionary() {
    NpyHeader header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !has_descr) {
        header.type = element_type();
        has_descr = true;
      } else if (key == "fortran_order" && !has_order) {
        if (boolean()) fail("is Fortran-ordered; expected C order (numpy.ascontiguousarray makes it so)");
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        header.shape = tuple();
        has_shape = true;
      } else {
        fail("has a malformed header: unexpected or repeated key '", key, "'");
      }
      if (accept(',')) continue;
      expect('}');
      break;
    }
    skip_blanks();
    if (!rest_.empty()) fail("has a malformed header: characters after the dictionary");
    if (!has_descr || !has_order || !has_shape)
      fail("has a malformed header: '", !has_descr ? "descr" : !has_order ? "fortran_order" : "shape", "' is missing");
    check_size(header);
    return header;
  }

 private:
  static void check_size(const NpyHeader& header) {
    std::int64_t bytes = size_of(header.type);
    bool empty = false;
    for (const std::int64_t extent : header.shape) empty = empty || extent == 0;
    for (const std::int64_t extent : header.shape)
      if (!empty && __builtin_mul_overflow(bytes, extent, &bytes)) fail("has a shape whose size in bytes overflows 64 bits");
  }

  /// Returns the next text for a message: at most 20 characters of one line.
  std::string next_text() const {
    std::string text(rest_.substr(0, 20));
    for (char& c : text)
      if (static_cast<unsigned char>(c) < ' ') c = ' ';
    while (text.ends_with(' ')) text.pop_back();
    return text;
  }

  void skip_blanks() {
    const std::size_t begin = rest_.find_first_not_of(" \t\n");
    rest_.remove_prefix(begin == std::string_view::npos ? rest_.size() : begin);
  }

  bool accept(char wanted) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) fail("has a malformed header: '", wanted, "' expected before '", next_text(), "'");
  }

  std::string_view quoted() {
    skip_blanks();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    const std::size_t end = quote == '\'' || quote == '"' ? rest_.find(quote, 1) : std::string_view::npos;
    if (end == std::string_view::npos) fail("has a malformed header: a quoted string expected before '", next_text(), "'");
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }

  NpyType element_type() {
    skip_blanks();
    if (!rest_.empty() && rest_.front() == '[') fail("holds records (a structured dtype); expected plain numbers");
    const std::string_view type = quoted();
    if (type == "|b1") return NpyType::u1;
    for (const TypeName& known : type_names) {
      if (type == known.descr) return known.type;
      if (type.size() == 3 && type.front() == '>' && known.bytes > 1 && type.substr(1) == known.descr.substr(1))
        fail("is big-endian ('", type, "'); expected little-endian ('", known.descr, "')");
    }
    fail("holds '", type,
         "'; expected '<f4' (f32), '<f8' (f64), '<f2' (f16), '<u2' (the bits of bf16), '|u1' or '|b1' (u8, or the bits of "
         "e4m3 and e5m2), '|i1' (i8), '<i4' (i32) or '<i8' (i64)");
  }

  bool boolean() {
    skip_blanks();
    for (const auto& [literal, value] :
         {std::pair(std::string_view("True"), true), std::pair(std::string_view("False"), false)})
      if (rest_.starts_with(literal)) {
        rest_.remove_prefix(literal.size());
        return value;
      }
    fail("has a malformed header: True or False expected before '", next_text(), "'");
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> extents;
    expect('(');
    while (!accept(')')) {
      skip_blanks();
      std::int64_t extent = 0;
      const auto [end, failure] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (failure == std::errc::result_out_of_range) fail("has a shape whose size in bytes overflows 64 bits");
      if (failure != std::errc() || extent < 0)
        fail("has a malformed header: a length from 0 expected in the shape before '", next_text(), "'");
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      extents.push_back(extent);
      if (accept(',')) continue;
      if (extents.size() == 1) fail("has a malformed header: (N) is no tuple; expected (N,)");
      expect(')');
      break;
    }
    return extents;
  }

  std::string_view rest_;
};

}  // namespace

std::int64_t size_of(NpyType type) noexcept { return type_names[static_cast<std::size_t>(type)].bytes; }
std::string_view descr(NpyType type) noexcept { return type_names[static_cast<std::size_t>(type)].descr; }

std::int64_t NpyHeader::elements() const noexcept {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape)
    if (extent == 0) return 0;  // the other lengths may be anything
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

NpyHeader parse_npy_dictionary(std::string_view text) { return Parser(text).dictionary(); }

std::string npy_header_text(const NpyHeader& header) {
  std::string shape;
  for (const std::int64_t extent : header.shape) shape += std::to_string(extent) + ", ";
  if (header.shape.size() > 1) shape.resize(shape.size() - 2);
  if (header.shape.size() == 1) shape.pop_back();
  std::string dictionary =
      "{'descr': '" + std::string(descr(header.type)) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  constexpr std::size_t prefix = 10;  // magic string, version, length
  constexpr std::size_t alignment = 64;
  dictionary.append(alignment - (prefix + dictionary.size() + 1) % alignment, ' ');
  dictionary += '\n';
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(dictionary.size() & 0xff);
  text += static_cast<char>(dictionary.size() >> 8 & 0xff);
  return text + dictionary;
}

}  // namespace tunesmith::cli
