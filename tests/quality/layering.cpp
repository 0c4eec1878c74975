#include "tests/quality/layering.h"

#include <algorithm>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>

namespace tunesmith {
namespace {

struct Include {
  std::string file;  // the including file
  int line;
  std::string name;
  bool angled;

  std::string place() const { return file + ":" + std::to_string(line) + ": "; }
};

bool is_source(std::string_view path) {
  for (const std::string_view ending : {".h", ".cpp", ".cuh", ".cu", ".c"}) {
    if (path.ends_with(ending)) return true;
  }
  return false;
}

std::vector<Include> includes_of(const SourceTree& tree) {
  std::vector<Include> includes;
  for (const auto& [file, contents] : tree) {
    if (!is_source(file)) continue;
    std::istringstream lines(contents);
    std::string text;
    for (int line = 1; std::getline(lines, text); ++line) {
      std::string_view rest = text;
      const auto skip_blanks = [&] { rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size())); };
      skip_blanks();
      if (!rest.starts_with('#')) continue;
      rest.remove_prefix(1);
      skip_blanks();
      if (!rest.starts_with("include")) continue;
      rest.remove_prefix(7);
      skip_blanks();
      if (rest.empty() || (rest[0] != '"' && rest[0] != '<')) continue;
      const bool angled = rest[0] == '<';
      const std::size_t end = rest.find(angled ? '>' : '"', 1);
      if (end != std::string_view::npos) includes.push_back({file, line, std::string(rest.substr(1, end - 1)), angled});
    }
  }
  return includes;
}

// Layers by path prefix; the first match wins.
const std::vector<std::pair<std::string_view, std::string_view>> layer_prefixes = {
    {"core/", "core"},   {"api/cli/", "cli"}, {"api/python/", "python"},   {"api/examples/", "examples"},
    {"api/", "api"},     {"jit/", "jit"},     {"templates/", "templates"}, {"cache/", "cache"},
    {"tuner/", "tuner"}, {"fleet/", "fleet"}, {"tests/", "tests"},         {"bench/", "bench"},
    {"cmake/", "build"},
};

const std::map<std::string_view, std::set<std::string_view>> may_include = {
    {"device", {"device"}},
    {"core", {"core"}},
    {"templates", {"core", "templates"}},
    {"build", {"core", "templates"}},                 // programs that the build runs
    {"jit", {"core", "templates", "jit", "device"}},  // device: the host executor's platform builds on its types
    {"cache", {"core", "cache"}},
    {"fleet", {"core", "cache", "fleet"}},
    {"tuner", {"core", "templates", "jit", "cache", "tuner"}},
    {"api", {"core", "templates", "jit", "cache", "fleet", "tuner", "api"}},
    {"cli", {"core", "templates", "jit", "cache", "fleet", "tuner", "api", "cli"}},
    {"python", {"core", "templates", "api", "python"}},
    {"examples", {"core", "templates", "api", "examples"}},
    {"bench", {"core", "templates", "jit", "cache", "tuner", "api", "cli", "bench"}},
    {"tests", {"core", "templates", "jit", "cache", "fleet", "tuner", "api", "cli", "python", "device", "tests"}},
};

// External libraries by the start of their headers' names, and the only folders that may use them.
const std::vector<std::pair<std::string_view, std::set<std::string_view>>> outside_libraries = {
    {"sqlite3", {"cache/", "tests/"}},
    {"boost/", {"jit/host/"}},
    {"hiredis/", {"fleet/"}},
    {"openssl/", {"fleet/", "tests/fleet/"}},
    {"zlib", {"fleet/"}},
    {"CLI/", {"api/cli/", "tests/api/cli/"}},
    {"nlohmann/", {"api/cli/", "bench/", "tests/"}},
    {"xxhash", {"core/"}},
    {"nanobind/", {"api/python/", "tests/api/python/"}},
    {"xla/", {"api/python/"}},
    {"gtest/", {"tests/"}},
    {"gmock/", {"tests/"}},
    {"benchmark/", {"bench/"}},
    // NVRTC and the driver are opened at run time, because a machine without a toolkit has no headers.
    {"cuda", {}},
    {"nvrtc", {}},
};

std::string_view layer_of(std::string_view path) {
  if (path.starts_with("templates/") && (path.ends_with(".cuh") || path.ends_with(".cu"))) return "device";
  for (const auto& [prefix, layer] : layer_prefixes) {
    if (path.starts_with(prefix)) return layer;
  }
  return "";
}

std::string folder_of(std::string_view path) { return std::string(path.substr(0, path.rfind('/') + 1)); }

// Reports whether a header is installed: core/include/, templates/<operation>/include/, api/include/.
bool is_public(std::string_view path) { return path.find("/include/tunesmith/") != std::string_view::npos; }

// Returns the file of the tree that an include refers to, found like the compiler does.
std::optional<std::string> resolve(const SourceTree& tree, const Include& include) {
  for (const std::string& folder : {folder_of(include.file), std::string(), std::string("templates/")}) {
    const std::string path = folder + include.name;
    if (tree.contains(path)) return path;
  }
  if (!include.name.starts_with("tunesmith/")) return std::nullopt;
  for (const auto& [path, contents] : tree)
    if (is_public(path) && path.ends_with("/include/" + include.name)) return path;
  return std::nullopt;
}

// Returns the folder of an operation, also for files in its subfolders: "templates/softmax/".
std::string operation_of(std::string_view path) {
  constexpr std::string_view templates = "templates/";
  if (!path.starts_with(templates)) return folder_of(path);
  const std::size_t end = path.find('/', templates.size());
  return std::string(path.substr(0, end == path.npos ? templates.size() : end + 1));
}

// Operations on rows, which use row/ and, for columns that are not adjacent, strided/, which builds on row/ itself.
const std::set<std::string_view> over_rows = {"templates/softmax/", "templates/cross_entropy/", "templates/row_program/",
                                              "templates/strided/"};
bool is_for_rows(std::string_view folder) { return folder == "templates/row/" || folder == "templates/strided/"; }

// Operations that continue another one, whose files they share.
const std::multimap<std::string_view, std::string_view> continues = {
    {"templates/attention_backward/", "templates/attention/"},
    {"templates/kv_append/", "templates/attention/"},
    {"templates/merge_attention_parts/", "templates/attention/"},
    {"templates/rms_norm/", "templates/row_program/"},
    {"templates/linear_loss/", "templates/matmul/"},
    {"templates/linear_loss/", "templates/cross_entropy/"}};

bool continues_operation(std::string_view own, std::string_view target) {
  const auto [begin, end] = continues.equal_range(own);
  return std::any_of(begin, end, [&](const auto& pair) { return pair.second == target; });
}

std::string check_device_code(const Include& include, const std::string& path) {
  const std::string own = operation_of(include.file), target = operation_of(path);
  if (target == "templates/device/" || target == own) return "";
  if (is_for_rows(target) && over_rows.contains(own)) return "";
  if (continues_operation(own, target)) return "";
  return "device code may include only device/, its own folder, that of the operation it continues and, for operations "
         "over rows, row/ and strided/ (" +
         path + ")";
}

// Checks the host code of an operation. Operations must not use each other, except that one continues another; all may use
// row/ and strided/.
std::string check_descriptor(const Include& include, const std::string& path) {
  const std::string own = operation_of(include.file), target = operation_of(path);
  if (own == "templates/" || target == "templates/" || is_for_rows(target) || target == own) return "";
  if (continues_operation(own, target)) return "";
  return "a folder of templates/ may include only templates/, row/, strided/ and itself (" + path + ")";
}

std::string check_own_file(const Include& include, const std::string& path) {
  const std::string from(layer_of(include.file)), to(layer_of(path));
  const auto allowed = may_include.find(from);
  if (allowed == may_include.end()) return "the folder is not in the list of layers; add it";
  // The structs of kernels' parameters are the one part of device code that the host compiles, too.
  if (from == "templates" && path.ends_with("params.cuh")) return check_descriptor(include, path);
  if (!allowed->second.contains(to)) return from + " may not include " + to + " (" + path + ")";
  if (from == "device") return check_device_code(include, path);
  if (is_public(include.file) && !is_public(path)) return "a public header may include only public ones (" + path + ")";
  if (from == "templates" && to == "templates") return check_descriptor(include, path);
  if (from == "examples" && to != "examples" && !is_public(path))
    return "an example may include only public headers (" + path + ")";
  const auto between = [&](std::string_view a, std::string_view b) {
    return include.file.starts_with(a) && path.starts_with(b);
  };
  if (between("jit/cuda/", "jit/host/") || between("jit/host/", "jit/cuda/")) {
    return "the two implementations of jit may not include each other (" + path + ")";
  }
  return "";
}

std::string check_outside_library(const Include& include) {
  for (const auto& [prefix, folders] : outside_libraries) {
    if (!include.name.starts_with(prefix)) continue;
    for (const std::string_view folder : folders) {
      if (include.file.starts_with(folder)) return "";
    }
    return "<" + include.name + "> may not be included in this folder";
  }
  // platform.cuh and matrix.cuh select the platform; the host executor provides its headers for the generated source.
  const bool meeting = (include.file == "templates/device/platform.cuh" && include.name == "tunesmith_platform_host.h") ||
                       (include.file == "templates/device/matrix.cuh" && include.name == "tunesmith_matrix_host.h") ||
                       (include.file == "templates/device/hopper.cuh" && include.name == "tunesmith_hopper_host.h") ||
                       (include.file == "templates/device/wgmma.cuh" && include.name == "tunesmith_wgmma_host.h");
  if (layer_of(include.file) == "device" && !meeting)
    return "device code may not include external headers (" + include.name + ")";
  return "";
}

// Reports names of operations in row/, which knows only what programs cost (row/cost.h). Comments may point at the notes of
// an operation.
void check_names_of_operations(const SourceTree& tree, std::vector<std::string>& violations) {
  std::string names;
  for (const std::string_view folder : over_rows)
    if (tree.contains(std::string(folder) + "op.h"))
      names += (names.empty() ? "" : "|") + std::string(folder.substr(folder.find('/') + 1, folder.size() - 11));
  if (names.empty()) return;
  const std::regex named("(^|[^a-zA-Z])(log_)?(" + names + ")(?!/NOTES\\.md)(?![a-zA-Z])");
  for (const auto& [file, contents] : tree) {
    if (!is_source(file) || !file.starts_with("templates/row/")) continue;
    std::istringstream lines(contents);
    std::string text;
    for (int line = 1; std::getline(lines, text); ++line)
      if (!text.starts_with('#') && std::regex_search(text, named))  // rules for includes report these
        violations.push_back(file + ":" + std::to_string(line) + ": row/ may not name an operation");
  }
}

}  // namespace

std::vector<std::string> layering_violations(const SourceTree& tree) {
  std::vector<std::string> violations;
  check_names_of_operations(tree, violations);
  for (const Include& include : includes_of(tree)) {
    const std::optional<std::string> own = resolve(tree, include);
    std::string broken;
    if (own) {
      broken = check_own_file(include, *own);
    } else if (include.angled) {
      broken = check_outside_library(include);
    } else {
      broken = "no such file: \"" + include.name + "\"";
    }
    if (!broken.empty()) violations.push_back(include.place() + broken);
  }
  return violations;
}

int count_includes(const SourceTree& tree) { return static_cast<int>(includes_of(tree).size()); }

}  // namespace tunesmith
