#include "templates/template_set.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "core/hash.h"
#include "core/tokens.h"
#include "templates/template_contents.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

/// Calls `take` with each line of a text, without its line end, and its number.
template <typename Take>
void for_each_line(std::string_view text, const Take& take) {
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    take(line, number);
  }
}

void append_flat(const TemplateSet& templates, std::string_view name, std::set<std::string, std::less<>>& done,
                 std::string& out) {
  if (!done.emplace(name).second) return;
  const auto mark = [&](int line) {
    out.append("#line ").append(std::to_string(line)).append(" \"templates/").append(name).append("\"\n");
  };
  mark(1);
  for_each_line(templates.file(name), [&](std::string_view line, int number) {
    if (const std::string_view included = quoted_include(line); !included.empty()) {
      const bool is_new = !done.contains(included);
      if (is_new) append_flat(templates, included, done, out);
      if (is_new)
        mark(number + 1);
      else
        out += '\n';
    } else {
      if (line != "#pragma once") out += line;
      out += '\n';
    }
  });
}

/// Returns the files of a folder that no template includes; all of them if each is included, as in device/.
std::vector<std::string_view> kernels_in(const TemplateSet::Files& files, const std::string& folder) {
  std::set<std::string_view> included;
  for (const auto& [name, content] : files)
    for_each_line(content, [&, by = std::string_view(name)](std::string_view line, int) {
      if (const std::string_view file = quoted_include(line); !file.empty() && file != by) included.insert(file);
    });
  std::vector<std::string_view> all, kernels;
  for (auto file = files.lower_bound(folder); file != files.end() && file->first.starts_with(folder); ++file) {
    all.emplace_back(file->first);
    if (!included.contains(file->first)) kernels.emplace_back(file->first);
  }
  return kernels.empty() ? all : kernels;
}

template <typename Digests>
std::string hash_of(const Digests& digests) {
  std::string text;
  for (const std::string& digest : digests) text += digest + "\n";
  return hash_hex(text);
}

}  // namespace

std::string_view quoted_include(std::string_view line) {
  constexpr std::string_view directive = "#include \"";
  if (!line.starts_with(directive)) return {};
  line.remove_prefix(directive.size());
  return line.substr(0, line.find('"'));
}

TemplateSet::TemplateSet(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}

TemplateSet TemplateSet::from_folder(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw Error(ErrorCode::io, "templates folder '", folder.string(), "' is not a folder that can be read");
  const auto contents = std::make_shared<Contents>();
  for (auto it = fs::recursive_directory_iterator(folder, error); !error && it != fs::recursive_directory_iterator();
       it.increment(error)) {
    if (it->path().extension() != ".cuh") continue;
    std::ifstream stream(it->path(), std::ios::binary);
    std::ostringstream content;
    content << stream.rdbuf();
    if (!stream) throw Error(ErrorCode::io, "template '", it->path().string(), "' cannot be read");
    contents->files.emplace(fs::relative(it->path(), folder).generic_string(),
                            contents->owned.emplace_back(std::move(content).str()));
  }
  if (contents->files.empty())
    throw Error(ErrorCode::io, "templates folder '", folder.string(), "' holds no .cuh file; expected device/ and softmax/");
  return TemplateSet(contents);
}

const TemplateSet::Files& TemplateSet::files() const noexcept { return contents_->files; }

std::string_view TemplateSet::file(std::string_view name) const {
  const auto it = contents_->files.find(name);
  if (it == contents_->files.end()) throw Error(ErrorCode::not_found, "template '", name, "' is not in the template set");
  return it->second;
}

std::string TemplateSet::flatten(std::string_view name) const { return flatten(std::array{std::string(name)}); }

std::string TemplateSet::flatten(std::span<const std::string> names) const {
  std::string out;
  std::set<std::string, std::less<>> done;
  for (const std::string& name : names) append_flat(*this, name, done, out);
  return out;
}

std::string TemplateSet::digest(std::string_view name) const {
  return contents_->digest(name, [&] {
    if (contents_->files.contains(name)) return token_digest(flatten(name));
    const std::vector<std::string_view> kernels = kernels_in(contents_->files, std::string(name) + "/");
    if (kernels.empty()) throw Error(ErrorCode::not_found, "template '", name, "' is not in the template set");
    std::set<std::string> digests;  // sorted, because file names are ignored
    for (const std::string_view kernel : kernels) digests.insert(digest(kernel));
    return hash_of(digests);
  });
}

std::string TemplateSet::digest(std::span<const std::string> names) const {
  if (names.size() == 1) return digest(names.front());
  std::vector<std::string> digests;
  for (const std::string& name : names) digests.push_back(digest(name));
  return hash_of(digests);
}

}  // namespace tunesmith
