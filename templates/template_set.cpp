#include "templates/template_set.h"

#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "core/hash.h"
#include "tunesmith/error.h"

namespace tunesmith {

extern const std::pair<std::string_view, std::string_view> embedded_templates[];
extern const std::size_t embedded_templates_count;

namespace {

// #include "name" -> name; empty for any other line (angle brackets are left to the compiler).
std::string_view quoted_include(std::string_view line) {
  constexpr std::string_view directive = "#include \"";
  if (!line.starts_with(directive)) return {};
  line.remove_prefix(directive.size());
  return line.substr(0, line.find('"'));
}

void append_flat(const TemplateSet& templates, const std::string& name, std::set<std::string, std::less<>>& done,
                 std::string& out) {
  if (!done.insert(name).second) return;
  const auto mark = [&](int line) { out += "#line " + std::to_string(line) + " \"templates/" + name + "\"\n"; };
  mark(1);
  std::istringstream lines(templates.file(name));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (const std::string_view included = quoted_include(line); !included.empty()) {
      const bool is_new = !done.contains(included);
      if (is_new) append_flat(templates, std::string(included), done, out);
      if (is_new)
        mark(number + 1);
      else
        out += '\n';
    } else {
      out += line == "#pragma once" ? "\n" : line + "\n";
    }
  }
}

}  // namespace

const TemplateSet& TemplateSet::embedded() {
  static const TemplateSet set = [] {
    TemplateSet templates;
    for (std::size_t i = 0; i < embedded_templates_count; ++i)
      templates.files_.emplace(embedded_templates[i].first, embedded_templates[i].second);
    return templates;
  }();
  return set;
}

TemplateSet TemplateSet::from_folder(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw Error(ErrorCode::io, "templates folder '", folder.string(), "' is not a folder that can be read");
  TemplateSet templates;
  for (auto it = fs::recursive_directory_iterator(folder, error); !error && it != fs::recursive_directory_iterator();
       it.increment(error)) {
    if (it->path().extension() != ".cuh") continue;
    std::ifstream stream(it->path(), std::ios::binary);
    std::ostringstream content;
    content << stream.rdbuf();
    if (!stream) throw Error(ErrorCode::io, "template '", it->path().string(), "' cannot be read");
    templates.files_.emplace(fs::relative(it->path(), folder).generic_string(), content.str());
  }
  if (templates.files_.empty())
    throw Error(ErrorCode::io, "templates folder '", folder.string(), "' holds no .cuh file; expected device/ and softmax/");
  return templates;
}

const std::string& TemplateSet::file(std::string_view name) const {
  const auto it = files_.find(name);
  if (it == files_.end()) throw Error(ErrorCode::not_found, "template '", name, "' is not in the template set");
  return it->second;
}

std::string TemplateSet::flatten(std::string_view name) const {
  std::string out;
  std::set<std::string, std::less<>> done;
  append_flat(*this, std::string(name), done, out);
  return out;
}

std::string TemplateSet::digest(std::string_view name) const { return hash_hex(flatten(name)); }

}  // namespace tunesmith
