#include "api/cli/cache/current_version.h"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <vector>

#include "api/cli/arguments/flags.h"
#include "api/cli/cache/recorded.h"
#include "api/engine/parts.h"
#include "templates/op.h"
#include "tuner/products.h"
#include "tuner/select.h"

namespace tunesmith::cli {
namespace {

constexpr const char* other_templates = "other templates";
constexpr const char* other_keys = "keys of another version";

/// Throws Error for a string that DeviceInfo::device_class() does not write.
void check_device_class(const std::string& device_class) {
  const std::size_t name_end = device_class.find(';');
  if (name_end == std::string::npos) throw Error(ErrorCode::invalid_argument, "'", device_class, "' is not a device class");
  const std::size_t arch_end = device_class.find(';', name_end + 1);
  (void)parse_arch(device_class.substr(name_end + 1, arch_end - name_end - 1));
}

/// Returns the words of "templates" in the opening comment of a generated source, {"softmax/resident.cuh", digest}; they may
/// take several lines.
std::vector<std::string> templates_of(const std::string& source) {
  constexpr std::string_view label = "//   templates ", blank = "//             ";
  std::vector<std::string> found;
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line) && line.starts_with("//");) {
    if (!line.starts_with(label) && (found.empty() || !line.starts_with(blank))) continue;
    std::istringstream words(line.substr(label.size()));
    for (std::string word; words >> word;) found.push_back(word);
  }
  return found;
}

bool is_of(const std::string& source, const TemplateSet& templates) {
  std::vector<std::string> names = templates_of(source);
  if (names.size() < 2) return false;
  const std::string digest = std::move(names.back());
  names.pop_back();
  const auto exists = [&](const std::string& name) { return templates.files().contains(name); };
  return std::ranges::all_of(names, exists) && templates.digest(names) == digest;
}

std::shared_ptr<Compiler> open_if_present(DeviceInfo::Kind kind, const EngineOptions& options) try {
  std::shared_ptr<Compiler> compiler = open_compiler(kind, options);
  if (compiler->supported_archs().empty()) return nullptr;
  (void)compiler->identity();
  return compiler;
} catch (const Error&) {  // no compiler on this machine
  return nullptr;
}

}  // namespace

CurrentVersion::CurrentVersion(const EngineOptions& options) : options_(options), templates_(open_templates(options)) {}

std::string CurrentVersion::current_digest(const TuningRecord& record) const {
  check_device_class(record.key.device_class);
  // Rows are not compared: the measured problem may have fewer than the key.
  const ParsedProblemPtr parsed = recorded_problem(record);
  const KeyParts parts = parsed->key();
  if (parts.problem_class != record.key.problem_class ||
      (parts.n_cols != record.key.n_cols && tuned_n_cols(parts) != record.key.n_cols))
    throw Error(ErrorCode::invalid_argument, "the recorded key is not that of the recorded problem");
  return templates_.digest(parsed->op().templates());
}

std::string CurrentVersion::why_unusable(const TuningRecord& record) try {
  // Their digest is the version of a library, which may be another one on another machine.
  if (record.key.op != library_matmul) (void)current_digest(record);
  return record.key.policy == measuring_policy() ? "" : "measured another way";
} catch (const Error&) {  // an operation, a field or a device that this version does not know
  return other_keys;
}

bool CurrentVersion::is_older(const TuningRecord& record) {
  return record.key.op != library_matmul && why_unusable(record).empty() &&
         current_digest(record) != record.key.template_digest;
}

std::string CurrentVersion::use_of(const TuningRecord& record) {
  const std::string why = why_unusable(record);
  if (!why.empty()) return why;
  return std::string(name(is_older(record) ? Origin::older : Origin::exact));
}

const Compiler* CurrentVersion::compiler_of(const BinaryInfo& binary) {
  const bool by_nvrtc = binary.toolchain.starts_with("nvrtc");
  Toolchain& toolchain = by_nvrtc ? nvrtc_ : host_;
  if (!toolchain.opened)
    toolchain.compiler = open_if_present(by_nvrtc ? DeviceInfo::Kind::cuda : DeviceInfo::Kind::host, options_);
  toolchain.opened = true;
  return toolchain.compiler.get();
}

std::string CurrentVersion::why_unusable(const BinaryInfo& binary, const std::optional<std::string>& source) {
  if (source && !is_of(*source, templates_)) return other_templates;
  if (binary.fingerprint.find('-') == std::string::npos) return other_keys;
  const Compiler* const compiler = compiler_of(binary);
  if (compiler == nullptr) return "";
  constexpr const char* other_toolchain = "another toolchain";
  if (binary.toolchain != compiler->identity()) return other_toolchain;
  try {
    if (!binary.fingerprint.ends_with(binary_fingerprint(*compiler, parse_arch(binary.arch), "")))
      return other_toolchain;  // the same compiler, with other options
  } catch (const Error&) {     // an architecture that this version does not know
    return other_toolchain;
  }
  return "";
}

}  // namespace tunesmith::cli
