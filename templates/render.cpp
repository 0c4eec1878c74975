#include "templates/render.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <sstream>
#include <vector>

#include "core/hash.h"
#include "templates/fold.h"
#include "templates/reachable.h"

namespace tunesmith {
namespace {

constexpr std::size_t label_columns = 16, max_columns = 118;

std::ptrdiff_t lines_in(const std::string& text) { return std::ranges::count(text, '\n'); }

/// Returns "//   label           text", wrapped into several lines.
std::string labeled(const std::string& label, const std::string& text) {
  std::string lines, line = "//   " + label + std::string(std::max(label.size() + 1, label_columns) - label.size(), ' ');
  std::istringstream words(text);
  const std::size_t empty = line.size();
  for (std::string word; words >> word; line += word) {
    if (line.size() > empty && line.size() + 1 + word.size() > max_columns) {
      lines += line + "\n";
      line = "//   " + std::string(label_columns, ' ');
    } else if (line.size() > empty) {
      line += ' ';
    }
  }
  return lines + line + "\n";
}

/// Appends generated text, with the actual line directive in place of every "#line here".
void append_lines(std::string& source, const std::string& text, const std::string& file) {
  std::ptrdiff_t line = lines_in(source) + 1;
  std::istringstream lines(text);
  for (std::string own; std::getline(lines, own); ++line)
    source += own == "#line here" ? "#line " + std::to_string(line + 1) + " \"" + file + "\"\n" : own + "\n";
}

const std::string own_part = "\n// ---- This problem, this configuration " + std::string(80, '-') + "\n\n";

/// Lines by file and number.
using KeptLines = std::map<std::string, std::map<int, std::string>>;

/// Splits flattened templates by file.
KeptLines lines_by_file(const std::string& device) {
  KeptLines kept;
  std::map<int, std::string>* file = nullptr;
  std::istringstream lines(device);
  int number = 0;
  for (std::string line; std::getline(lines, line); ++number) {
    if (line.starts_with("#line ")) {
      const std::size_t begin = line.find("templates/") + std::string_view("templates/").size();
      file = &kept[line.substr(begin, line.rfind('"') - begin)];
      number = std::stoi(line.substr(6)) - 1;
    } else if (file != nullptr) {
      (*file)[number] = line;
    }
  }
  return kept;
}

/// Adds the files that an #include provides: the named one, or its own includes if nothing of it is reachable.
void add_kept(const TemplateSet& templates, const KeptLines& kept, const std::string& name,
              std::vector<std::string>& files) {
  if (kept.contains(name)) {
    if (std::ranges::find(files, name) == files.end()) files.push_back(name);
    return;
  }
  std::istringstream lines{std::string(templates.file(name))};
  for (std::string line; std::getline(lines, line);)
    if (const std::string_view included = quoted_include(line); !included.empty())
      add_kept(templates, kept, std::string(included), files);
}

/// Returns the kept lines of a template with the remaining #include lines, and an empty line for each gap.
std::string header_of(const TemplateSet& templates, const KeptLines& kept, const std::string& name) {
  const std::map<int, std::string>& own = kept.at(name);
  std::vector<std::string> included;
  std::string content;
  std::istringstream lines{std::string(templates.file(name))};
  int number = 0;
  const auto add = [&](const std::string& line) {
    if (!line.empty() || !content.ends_with("\n\n")) content += line + "\n";
  };
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (const std::string_view file = quoted_include(line); !file.empty()) {
      const std::size_t before = included.size();
      add_kept(templates, kept, std::string(file), included);
      for (std::size_t i = before; i < included.size(); ++i) add("#include \"" + included[i] + "\"");
    } else if (line == "#pragma once" || own.contains(number)) {
      add(line);
    } else {
      add("");
    }
  }
  return content;
}

}  // namespace

KernelSource::KernelSource(const ParsedProblem& problem, const KernelConfig& config, const TemplateSet& templates)
    : op_(problem.op()), templates_(templates), config_(config.text()), parts_(problem.source_parts(config)) {
  // Increase the number if render() generates a different program from equal parts. Lengths precede the parts, so no two
  // lists concatenate to the same text.
  std::string text = "tunesmith source 1";
  const auto add = [&](std::string_view part) {
    text.append("\n").append(std::to_string(part.size())).append(":").append(part);
  };
  add(op_.name());
  for (const std::string& file : parts_.includes) add(file);
  add(templates_.digest(parts_.includes));
  add(parts_.min_arch);
  add(config_);
  for (const auto& [label, value] : parts_.specialized_for) {
    add(label);
    add(value);
  }
  // As text and not as tokens: they may contain user source, and they are short.
  add(parts_.constants);
  add(parts_.kernels);
  key_ = hash_hex(text);
}

std::string KernelSource::own() const { return parts_.constants + "\n" + parts_.kernels; }

std::string KernelSource::device(bool joined) const {
  return keep_reachable(templates_.flatten(parts_.includes), own(), joined);
}

std::string KernelSource::head() const {
  std::string text =
      "// " + std::string(op_.name()) + ", generated by Tunesmith from its templates. Edit those, not this file.\n//\n";
  for (const auto& [label, line] : parts_.specialized_for) text += labeled(label, line);
  text += labeled("configuration", config_);
  if (!parts_.algorithm.empty()) text += labeled("algorithm", parts_.algorithm);
  if (!parts_.threads.empty()) text += labeled("threads", parts_.threads);
  std::string names;
  for (const std::string& file : parts_.includes) names += file + " ";
  text += labeled("templates", names + templates_.digest(parts_.includes));
  return text + labeled("compile", "nvcc -arch=sm_90a -cubin; minimum architecture: " + parts_.min_arch);
}

void KernelSource::append_own(std::string& source) const {
  source += own_part;
  append_lines(source, own(), file());
}

std::string KernelSource::render() const {
  const std::string device = this->device(true);
  std::string source = head();
  // The head has two more lines: the kernel's position, and an empty one.
  const std::size_t definition = std::min(device.find(" void " + parts_.kernel + "("), device.size());
  const std::ptrdiff_t before = lines_in(source) + 2, line = before + lines_in(device.substr(0, definition)) + 1;
  source += labeled("kernel", parts_.kernel + " in line " + std::to_string(line) +
                                  "; constants and entry points from line " + std::to_string(before + lines_in(device) + 3));
  source += "\n" + device;
  source += "#line " + std::to_string(lines_in(source) + 2) + " \"" + file() + "\"\n";
  append_own(source);
  return source;
}

std::string KernelSource::render_kernel() const {
  const KeptLines kept = lines_by_file(device(false));
  std::string source = head() + "\n" + header_of(templates_, kept, parts_.includes.back());
  append_own(source);
  return source;
}

std::string KernelSource::render_folded(bool kernel_alone) const {
  const std::string folded = keep_reachable(fold_branches(device(!kernel_alone), parts_.constants), own(), !kernel_alone);
  const std::string kernel_file = "\"templates/" + parts_.includes.back() + "\"";
  std::string source = head() + "\n";
  std::istringstream lines(folded + own_part + own());
  bool shown = true;
  for (std::string line; std::getline(lines, line);) {
    const bool mark = line.starts_with("#line ");
    if (mark && kernel_alone) shown = line.ends_with(kernel_file);
    if (line.starts_with("// ---- This problem")) shown = true;
    if (mark) line.clear();
    if (shown && (!line.empty() || !source.ends_with("\n\n"))) source += line + "\n";
  }
  return source;
}

std::vector<SourceFile> KernelSource::render_files() const {
  const KeptLines kept = lines_by_file(device(false));
  std::vector<SourceFile> files;
  for (const auto& [name, lines] : kept) files.push_back({name, header_of(templates_, kept, name)});
  std::string source = head() + labeled("kernel", parts_.kernel + " in " + parts_.includes.back()) + "\n";
  std::vector<std::string> included;
  for (const std::string& name : parts_.includes) add_kept(templates_, kept, name, included);
  for (const std::string& name : included) source += "#include \"" + name + "\"\n";
  append_own(source);
  files.push_back({file(), source});
  return files;
}

}  // namespace tunesmith
