#include "templates/reachable.h"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "templates/scan.h"

namespace tunesmith {
namespace {

/// Words of Line::text or Line::code, with repetitions.
using Names = std::vector<std::string_view>;

struct Line {
  std::string_view file, text;  ///< parts of the templates
  std::string code;             ///< code_of(text)
  int number = 0;
};

/// Consecutive lines of one file.
struct Piece {
  enum class Kind : std::uint8_t {
    declaration,  ///< with the comment before it; also a macro
    comment,      ///< separate: of the file, or of a section
    open,         ///< "namespace tunesmith {" or "#if ..."
    middle,       ///< "#else", "#elif ..."
    close,        ///< "}" or "#endif"
    needed,       ///< "#include <...>"
    undef,        ///< of the macro `name`
    blank
  };
  Kind kind = Kind::blank;
  std::span<const Line> lines;
  std::string name;
  Names words;
  std::vector<std::size_t> inside;  ///< the `open` pieces that enclose it
  bool kept = false;
};

/// Returns a line without comments and the contents of strings.
std::string code_of(std::string_view line) {
  std::string code;
  if (line.find('"') == std::string_view::npos) {
    code = line.substr(0, line.find("//"));
    while (code.ends_with(' ')) code.pop_back();
    return code;
  }
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') quoted = !quoted;
    if (quoted && line[i] == '\\') {
      ++i;
      continue;
    }
    if (!quoted && line.substr(i).starts_with("//")) break;
    if (!quoted || line[i] == '"') code += line[i];
  }
  while (!code.empty() && code.back() == ' ') code.pop_back();
  return code;
}

void add_words(std::string_view code, Names& words) {
  for (std::size_t begin = 0; begin < code.size();) {
    std::size_t end = begin;
    while (end < code.size() && scan::in_word(code[end])) ++end;
    if (end > begin) words.push_back(code.substr(begin, end - begin));
    begin = std::max(end, begin + 1);
  }
}

/// Removes the first line from `text` and returns it.
std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

/// Returns the end of the bracketed part that opens at `at`.
std::size_t end_of_brackets(std::string_view code, std::size_t at, char open, char close) {
  for (int depth = 0; at < code.size(); ++at) {
    if (code[at] == open) ++depth;
    if (code[at] == close && --depth == 0) return at + 1;
  }
  return at;
}

std::string_view without_blanks(std::string_view code) {
  code.remove_prefix(std::min(code.find_first_not_of(" \n"), code.size()));
  return code;
}

/// "template <typename T>\nstruct Bits<2> {" -> "Bits".
std::string declared_name(std::string_view code) {
  code = without_blanks(code);
  while (code.starts_with("template")) code = without_blanks(code.substr(end_of_brackets(code, code.find('<'), '<', '>')));
  for (const std::string_view keyword : {"struct ", "enum class ", "class ", "using ", "#define "}) {
    if (!code.starts_with(keyword)) continue;
    code = without_blanks(code.substr(keyword.size()));
    if (code.starts_with("alignas")) code = without_blanks(code.substr(end_of_brackets(code, code.find('('), '(', ')')));
    return std::string(
        code.substr(0, static_cast<std::size_t>(std::ranges::find_if_not(code, scan::in_word) - code.begin())));
  }
  // A function or a variable: the last name before its parameters or its value, without template arguments.
  std::string_view name;
  for (std::size_t at = 0; at < code.size() && std::string_view("(={;[").find(code[at]) == std::string_view::npos;) {
    if (code[at] == '<') {
      at = end_of_brackets(code, at, '<', '>');
      continue;
    }
    std::size_t end = at;
    while (end < code.size() && scan::in_word(code[end])) ++end;
    if (end > at) name = code.substr(at, end - at);
    at = std::max(end, at + 1);
  }
  return std::string(name);
}

std::vector<Line> lines_of(std::string_view templates) {
  std::vector<Line> lines;
  std::string_view file;
  int number = 0;
  while (!templates.empty()) {
    const std::string_view text = take_line(templates);
    if (text.starts_with("#line ")) {
      const std::size_t quote = text.find('"');
      number = std::stoi(std::string(text.substr(6)));
      file = text.substr(quote + 1, text.rfind('"') - quote - 1);
    } else {
      lines.push_back({file, text, code_of(text), number++});
    }
  }
  return lines;
}

/// Returns the line after the declaration that begins at `at`.
std::size_t end_of_declaration(const std::vector<Line>& lines, std::size_t at) {
  if (lines[at].text.starts_with("#define")) {
    while (at < lines.size() && lines[at].text.ends_with('\\')) ++at;
    return at + 1;
  }
  for (int depth = 0; at < lines.size(); ++at) {
    const std::string& code = lines[at].code;
    for (const char c : code) depth += c == '{' || c == '(' ? 1 : (c == '}' || c == ')' ? -1 : 0);
    if (depth == 0 && (code.ends_with(';') || code.ends_with('}'))) return at + 1;
  }
  return at;
}

Piece::Kind kind_of(std::string_view text) {
  using Kind = Piece::Kind;
  if (text.empty()) return Kind::blank;
  if (text.starts_with("namespace") || text.starts_with("#if")) return Kind::open;
  if (text.starts_with("#el")) return Kind::middle;
  if (text.starts_with('}') || text.starts_with("#endif")) return Kind::close;
  if (text.starts_with("#undef")) return Kind::undef;
  if (text.starts_with('#') && !text.starts_with("#define")) return Kind::needed;
  return Kind::declaration;
}

std::vector<Piece> pieces_of(const std::vector<Line>& lines) {
  std::vector<Piece> pieces;
  std::vector<std::size_t> inside;
  for (std::size_t at = 0; at < lines.size();) {
    Piece piece;
    std::size_t end = at;
    while (end < lines.size() && lines[end].text.starts_with("//")) ++end;
    const bool comment = end > at;
    piece.kind = end < lines.size() ? kind_of(lines[end].text) : Piece::Kind::blank;
    if (piece.kind == Piece::Kind::declaration) {
      const std::size_t begin = end;
      end = end_of_declaration(lines, begin);
      std::string code;
      for (std::size_t i = begin; i < end; ++i) {
        code += lines[i].code + "\n";
        add_words(lines[i].code, piece.words);
      }
      piece.name = declared_name(code);
    } else if (comment) {
      piece.kind = Piece::Kind::comment;
    } else {
      // The words that an included file needs are unknown here: the line's comment names them.
      add_words(piece.kind == Piece::Kind::needed ? lines[end].text : lines[end].code, piece.words);
      if (piece.kind == Piece::Kind::undef) piece.name = lines[end].text.substr(7);
      ++end;
    }
    piece.lines = std::span(lines).subspan(at, end - at);
    if (piece.kind == Piece::Kind::close && !inside.empty()) inside.pop_back();
    piece.inside = inside;
    if (piece.kind == Piece::Kind::open) inside.push_back(pieces.size());
    pieces.push_back(std::move(piece));
    at = end;
  }
  return pieces;
}

/// Marks pieces reachable from the words, and the conditions that enclose them.
void mark_reachable(std::vector<Piece>& pieces, const Names& roots) {
  std::unordered_multimap<std::string_view, Piece*> declared;
  for (Piece& piece : pieces)
    if (piece.kind == Piece::Kind::declaration) declared.emplace(piece.name, &piece);
  Names due = roots;
  std::unordered_set<std::string_view> seen;
  const auto keep = [&](Piece& piece) {
    if (piece.kept) return;
    piece.kept = true;
    due.insert(due.end(), piece.words.begin(), piece.words.end());
    for (const std::size_t open : piece.inside) {
      pieces[open].kept = true;
      due.insert(due.end(), pieces[open].words.begin(), pieces[open].words.end());
    }
  };
  for (Piece& piece : pieces)
    if (piece.kind == Piece::Kind::needed) keep(piece);
  while (!due.empty()) {
    const std::string_view word = due.back();
    due.pop_back();
    if (!seen.insert(word).second) continue;
    for (auto [found, end] = declared.equal_range(word); found != end; ++found) keep(*found->second);
  }
  for (Piece& piece : pieces)
    if (piece.kind == Piece::Kind::undef) piece.kept = seen.contains(piece.name);
}

/// Marks the brackets around kept pieces, and the comments of files and sections with kept pieces.
void mark_surroundings(std::vector<Piece>& pieces) {
  std::vector<bool> open;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    Piece& piece = pieces[i];
    if (piece.kind == Piece::Kind::open) {
      open.push_back(piece.kept);
    } else if (piece.kind == Piece::Kind::middle || piece.kind == Piece::Kind::close) {
      piece.kept = open.empty() || open.back();
      if (piece.kind == Piece::Kind::close && !open.empty()) open.pop_back();
    } else if (piece.kind == Piece::Kind::comment) {
      const Line& line = piece.lines.front();
      for (std::size_t j = i + 1; j < pieces.size() && !piece.kept; ++j) {
        const Piece& other = pieces[j];
        if (other.lines.front().file != line.file) continue;
        if (other.kind == Piece::Kind::comment && line.number != 1) break;
        piece.kept = other.kind == Piece::Kind::declaration && other.kept;
      }
    }
  }
}

/// Drops the end and the next beginning of a namespace if nothing is between them.
void join_namespaces(std::vector<Piece>& pieces) {
  Piece* closed = nullptr;
  for (Piece& piece : pieces) {
    if (!piece.kept || piece.kind == Piece::Kind::comment) continue;
    const std::string_view line = piece.lines.front().text;
    if (closed != nullptr && line.starts_with("namespace ") &&
        closed->lines.front().text == "}  // " + std::string(line.substr(0, line.size() - 2)))
      closed->kept = piece.kept = false;
    closed = piece.kind == Piece::Kind::close && line.starts_with("}  // namespace ") ? &piece : nullptr;
  }
}

/// Writes lines, with #line directives in place of empty lines after omitted ones.
class Writer {
 public:
  void blank() { blank_ = true; }
  void write(const Piece& piece) {
    for (const Line& line : piece.lines) {
      if (line.file == file_ && line.number == next_ + 1 && blank_)
        text_ += '\n';
      else if (line.file != file_ || line.number != next_)
        text_.append("#line ").append(std::to_string(line.number)).append(" \"").append(line.file).append("\"\n");
      blank_ = false;
      file_ = line.file;
      next_ = line.number + 1;
      text_.append(line.text) += '\n';
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::string_view file_;
  int next_ = 0;
  bool blank_ = false;
};

}  // namespace

std::string keep_reachable(const std::string& templates, const std::string& roots, bool joined) {
  const std::vector<Line> lines = lines_of(templates);
  std::string root_code;
  for (std::string_view rest = roots; !rest.empty();) root_code += code_of(take_line(rest)) + "\n";
  Names root_words;
  add_words(root_code, root_words);
  std::vector<Piece> pieces = pieces_of(lines);
  mark_reachable(pieces, root_words);
  mark_surroundings(pieces);
  if (joined) join_namespaces(pieces);
  Writer writer;
  std::map<std::string_view, const Piece*> due;  // comments of files that are written with the file's next kept piece
  for (const Piece& piece : pieces) {
    if (piece.kind == Piece::Kind::blank) {
      writer.blank();
    } else if (piece.kept && piece.kind == Piece::Kind::comment && piece.lines.front().number == 1) {
      due.emplace(piece.lines.front().file, &piece);
    } else if (piece.kept) {
      if (const auto comment = due.extract(piece.lines.front().file)) writer.write(*comment.mapped());
      writer.write(piece);
    }
  }
  return writer.text();
}

}  // namespace tunesmith
