#include "jit/host/translation_unit.h"

#include <algorithm>
#include <cctype>

namespace tunesmith {

std::span<const std::pair<std::string_view, std::string_view>> tunesmith_host_headers();

namespace host {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Replaces comments by blanks, so that positions do not change.
std::string without_comments(std::string_view source) {
  std::string text(source);
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quote != 0) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == quote || text[i] == '\n')
        quote = 0;
    } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || !is_word(text[i - 1])))) {  // not a digit separator
      quote = text[i];
    } else if (text.compare(i, 2, "//") == 0 || text.compare(i, 2, "/*") == 0) {
      const bool line = text[i + 1] == '/';
      const std::size_t found = line ? text.find('\n', i) : text.find("*/", i + 2);
      const std::size_t end = found == std::string::npos ? text.size() : found + (line ? 0 : 2);
      for (; i < end; ++i)
        if (text[i] != '\n') text[i] = ' ';
      --i;
    }
  }
  return text;
}

struct EntryPoint {
  std::string name;
  std::size_t linkage_begin, linkage_end;  // of extern "C"
};

// Scans the tokens around __global__.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool take(std::string_view word, std::size_t& at) const {
    skip_space(at);
    if (text_.substr(at, word.size()) != word) return false;
    at += word.size();
    return true;
  }
  std::string_view word(std::size_t& at) const {
    skip_space(at);
    const std::size_t begin = at;
    while (at < text_.size() && is_word(text_[at])) ++at;
    return text_.substr(begin, at - begin);
  }
  // Skips (...) with nested parentheses.
  void parentheses(std::size_t& at) const {
    skip_space(at);
    int depth = 0;
    for (; at < text_.size(); ++at) {
      if (text_[at] == '(') ++depth;
      if (text_[at] == ')' && --depth == 0) break;
    }
    if (at < text_.size()) ++at;
  }

 private:
  void skip_space(std::size_t& at) const {
    while (at < text_.size() && std::isspace(static_cast<unsigned char>(text_[at])) != 0) ++at;
  }
  std::string_view text_;
};

// Replaces preprocessor directives by blanks, including continued lines: a declaration in a macro has no name yet.
void blank_directives(std::string& text) {
  for (std::size_t line = 0; line < text.size();) {
    const std::size_t first = text.find_first_not_of(" \t", line);
    std::size_t end = std::min(text.find('\n', line), text.size());
    if (first < end && text[first] == '#') {
      while (end < text.size() && text[end - 1] == '\\') end = std::min(text.find('\n', end + 1), text.size());
      for (std::size_t i = line; i < end; ++i)
        if (text[i] != '\n') text[i] = ' ';
    }
    line = end + 1;
  }
}

std::vector<EntryPoint> entry_points(std::string_view source) {
  std::string text = without_comments(source);
  blank_directives(text);
  const Scanner scanner(text);
  std::vector<EntryPoint> entries;
  for (std::size_t begin = text.find("extern"); begin != std::string::npos; begin = text.find("extern", begin + 1)) {
    std::size_t at = begin;
    if ((begin > 0 && is_word(text[begin - 1])) || !scanner.take("extern", at) || !scanner.take("\"C\"", at)) continue;
    const std::size_t linkage_end = at;
    if (!scanner.take("__global__", at)) continue;
    std::string_view word = scanner.word(at);
    while (word == "void" || word == "__launch_bounds__" || word == "__cluster_dims__" || word == "__maxnreg__") {
      if (word != "void") scanner.parentheses(at);
      word = scanner.word(at);
    }
    if (!word.empty() && scanner.take("(", at)) entries.push_back({std::string(word), begin, linkage_end});
  }
  return entries;
}

// Blanks out `extern "C"` and `#pragma once`, keeping lines and columns. C linkage would merge kernels of the same name, and
// compilers treat two files of equal content with `#pragma once` as one.
std::string for_namespace(const std::string& source, const std::vector<EntryPoint>& entries) {
  std::string text = source;
  constexpr std::string_view once = "#pragma once";
  for (std::size_t at = text.find(once); at != std::string::npos; at = text.find(once, at))
    if (at == 0 || text[at - 1] == '\n')
      text.replace(at, once.size(), once.size(), ' ');
    else
      at += once.size();
  for (const EntryPoint& entry : entries)
    for (std::size_t i = entry.linkage_begin; i < entry.linkage_end; ++i)
      if (text[i] != '\n') text[i] = ' ';
  return text;
}

std::string line_quoted(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  return text + "\"";
}

}  // namespace

std::vector<std::string> entry_names(std::string_view source) {
  std::vector<std::string> names;
  for (const EntryPoint& entry : entry_points(source)) {
    // A declaration before the definition names the same kernel.
    if (std::find(names.begin(), names.end(), entry.name) == names.end()) names.push_back(entry.name);
  }
  return names;
}

std::vector<std::pair<std::string, std::string>> translation_unit(std::span<const CompileRequest> requests) {
  std::vector<std::pair<std::string, std::string>> files(1);
  std::string unit = "#define TUNESMITH_HOST_EXECUTOR 1\n#include \"tunesmith_kernel_library.h\"\n";
  std::string table = "static constexpr tunesmith_host_abi::Source tunesmith_sources[] = {\n";
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const CompileRequest& request = requests[i];
    const std::string number = std::to_string(i);
    const std::string file = "source_" + number + ".cuh";
    const std::string space = "tunesmith_source_" + number;
    const std::vector<EntryPoint> entries = entry_points(request.source);
    const std::vector<std::string> names = entry_names(request.source);
    files.emplace_back(file, "#line 1 " + line_quoted(request.name) + "\n" + for_namespace(request.source, entries) + "\n");

    unit += "#undef TUNESMITH_SM\n#define TUNESMITH_SM " + std::to_string(request.arch.number() * 10) + "\n";
    unit += "namespace " + space + " {\n#include \"" + file + "\"\n";
    // The first element is a dummy, because an array cannot be empty.
    unit += "static constexpr tunesmith_host_abi::Entry tunesmith_entries[] = {{},\n";
    for (const std::string& name : names)
      unit += "    tunesmith_host_abi::Kernel<&" + name + ">::entry(\"" + name + "\"),\n";
    unit += "};\n}\n";
    table += "    {" + space + "::tunesmith_entries + 1, " + std::to_string(names.size()) + "},\n";
  }
  unit += table + "};\n" +
          "static constexpr tunesmith_host_abi::Library tunesmith_library = {tunesmith_host_abi::version, "
          "tunesmith_sources, " +
          std::to_string(requests.size()) + "};\n" + R"(
extern "C" __attribute__((visibility("default"))) const tunesmith_host_abi::Library* tunesmith_host_library(
    const tunesmith_host_abi::Services* services, unsigned stack_shift) {
  if (services->version != tunesmith_host_abi::version) return nullptr;
  tunesmith_host_abi::services = services;
  tunesmith_host_abi::stack_shift = stack_shift;
  return &tunesmith_library;
}
)";
  files[0] = {"unit.cpp", std::move(unit)};
  return files;
}

std::span<const std::pair<std::string_view, std::string_view>> platform_headers() { return tunesmith_host_headers(); }

}  // namespace host
}  // namespace tunesmith
