#include "api/cli/cache/current_version.h"

#include <sstream>
#include <string_view>

#include "api/cli/arguments/flags.h"
#include "api/engine/parts.h"
#include "templates/op.h"
#include "tuner/select.h"

namespace tunesmith::cli {
namespace {

constexpr const char* other_templates = "other templates";

/// A device of that class, as far as keys and defaults look at it. Throws Error for what DeviceInfo::device_class() does not
/// write.
DeviceInfo device_of(const std::string& device_class) {
  const std::size_t name_end = device_class.find(';');
  if (name_end == std::string::npos) throw Error(ErrorCode::invalid_argument, "'", device_class, "' is no device class");
  const std::size_t arch_end = device_class.find(';', name_end + 1);
  DeviceInfo device = generic_device(parse_arch(device_class.substr(name_end + 1, arch_end - name_end - 1)));
  device.name = device_class.substr(0, name_end);
  return device;
}

/// "<main template> <digest>" of a generated source's opening comment; empty when it has none.
std::string templates_line(const std::string& source) {
  constexpr std::string_view label = "//   templates ";
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line) && line.starts_with("//");) {
    if (!line.starts_with(label)) continue;
    const std::size_t start = line.find_first_not_of(' ', label.size());
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

bool is_of(const std::string& source, const TemplateSet& templates) {
  const std::string line = templates_line(source);
  const std::string main_template = line.substr(0, line.find(' '));
  if (!templates.files().contains(main_template)) return false;
  return line == main_template + " " + templates.digest(main_template);
}

std::shared_ptr<Compiler> open_if_present(DeviceInfo::Kind kind, const EngineOptions& options) try {
  std::shared_ptr<Compiler> compiler = open_compiler(kind, options);
  if (compiler->supported_archs().empty()) return nullptr;
  (void)compiler->identity();
  return compiler;
} catch (const Error&) {  // there is none
  return nullptr;
}

}  // namespace

CurrentVersion::CurrentVersion(const EngineOptions& options) : options_(options), templates_(open_templates(options)) {}

std::string CurrentVersion::why_unusable(const TuningRecord& record) try {
  const Op& op = find_op(record.key.op);
  const DeviceInfo device = device_of(record.key.device_class);
  const Problem problem =
      op.normalize({record.key.op, parse_fields(record.problem.substr(record.problem.find(' ') + 1), "recorded problem")});
  // The measured problem may have had fewer rows than the key's: they do not enter.
  const KeyParts parts = op.parse(problem)->key();
  if (parts.semantics != record.key.semantics || parts.n_cols != record.key.n_cols) return "keys of another version";
  if (record.key.policy != measuring_policy()) return "measured another way";
  const std::string main_template = op.parse(problem)->source_parts(op.parse(problem)->default_config(device)).main_template;
  std::string& digest = digests_[main_template.substr(0, main_template.rfind('/') + 1)];
  if (digest.empty()) digest = tuning_key(*op.parse(problem), device, templates_).template_digest;
  return digest == record.key.template_digest ? "" : other_templates;
} catch (const Error&) {  // an operation, a field or a device that this version does not know
  return "keys of another version";
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
  const Compiler* const compiler = compiler_of(binary);
  if (compiler == nullptr) return "";
  constexpr const char* other_toolchain = "another toolchain";
  if (binary.toolchain != compiler->identity()) return other_toolchain;
  try {
    if (source && binary.fingerprint != binary_fingerprint(*compiler, {binary.op + ".cu", *source, parse_arch(binary.arch)}))
      return other_toolchain;  // the same compiler, called with other options
  } catch (const Error&) {     // an architecture that this version does not know
    return other_toolchain;
  }
  return "";
}

}  // namespace tunesmith::cli
