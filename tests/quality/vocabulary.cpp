#include "tests/quality/vocabulary.h"

#include <cctype>
#include <utility>

namespace tunesmith {
namespace {

bool is_lower(char c) { return std::islower(static_cast<unsigned char>(c)) != 0; }
bool is_upper(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }
bool is_letter(char c) { return is_lower(c) || is_upper(c); }

// The text with line breaks, indentation and comment marks between words replaced by one blank, and the line of each
// character.
struct FlatText {
  std::string text;
  std::vector<int> lines;

  explicit FlatText(std::string_view contents) {
    int line = 1;
    bool at_line_start = true;
    for (const char c : contents) {
      if (c == '\n') {
        while (text.ends_with(' ') || text.ends_with('\\')) remove_last();
        add(' ', line++);
        at_line_start = true;
      } else if (!at_line_start || std::string_view(" \t/#*").find(c) == std::string_view::npos) {
        at_line_start = false;
        add(c, line);
      }
    }
  }

  void add(char c, int line) {
    text += c;
    lines.push_back(line);
  }
  void remove_last() {
    text.pop_back();
    lines.pop_back();
  }
};

std::string to_lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// A word ends where its last letter is not followed by another one, except the first letter of the next word in CamelCase.
bool is_whole_word(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_letter(text[begin - 1]) && !(is_upper(text[begin]) && is_lower(text[begin - 1]))) return false;
  if (end == text.size() || !is_letter(text[end])) return true;
  return is_upper(text[end]) && is_lower(text[end - 1]);
}

}  // namespace

const std::vector<AvoidedPhrase>& avoided_phrases() {
  static const std::vector<AvoidedPhrase> phrases = {
      {"awkward", "edge-case, adversarial"},
      {"beside", "next to, in addition to"},
      {"copy engine", "TMA"},
      {"count for nothing", "are ignored"},
      {"counts for nothing", "is ignored"},
      {"goes without saying", "is omitted"},
      {"heed", "support"},
      {"heeds", "supports"},
      {"judge", "check against the reference"},
      {"judged", "checked against the reference"},
      {"judges", "checks against the reference"},
      {"roof", "copy baseline, roofline"},
      {"roofs", "copy baselines"},
      {"so many", "the number"},
      {"tile of keys", "K/V tile"},
      {"tile of queries", "Q tile"},
      {"tiles of keys", "K/V tiles"},
      {"tiles of queries", "Q tiles"},
      {"user's text", "user source, user function"},
      {"user's texts", "user sources, user functions"},
      {"users' texts", "user sources, user functions"},
      {"waiting row", "shared-memory-resident row"},
      {"what is given is used", "non-null arrays enable the corresponding outputs"},
      {"wherein", "a new sentence"},
  };
  return phrases;
}

std::vector<std::string> avoided_phrases_in(std::string_view path, std::string_view contents) {
  const FlatText flat(contents);
  const std::string lower = to_lower(flat.text);
  std::vector<std::string> found;
  for (const AvoidedPhrase& avoided : avoided_phrases()) {
    for (std::size_t at = lower.find(avoided.phrase); at != std::string::npos; at = lower.find(avoided.phrase, at + 1)) {
      if (!is_whole_word(flat.text, at, at + avoided.phrase.size())) continue;
      found.push_back(std::string(path) + ":" + std::to_string(flat.lines[at]) + ": '" + std::string(avoided.phrase) +
                      "'; write: " + std::string(avoided.instead));
    }
  }
  return found;
}

}  // namespace tunesmith
