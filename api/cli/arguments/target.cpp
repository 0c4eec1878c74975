#include "api/cli/arguments/target.h"

#include <algorithm>

#include "api/cli/arguments/flags.h"
#include "api/engine/parts.h"
#include "tuner/select.h"

namespace tunesmith::cli {
namespace {

std::shared_ptr<Device> open_gpu() {
  try {
    return open_device("cuda");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::no_device) throw;
    return nullptr;
  }
}

Target choose_target(const std::string& text, const std::shared_ptr<Device>& gpu) {
  const Arch arch = text.empty() ? gpu ? gpu->info().arch : Arch{9, 0, 'a'} : parse_arch(text);
  if (gpu && gpu->info().arch == arch) return {gpu->info(), true, gpu};
  return {generic_device(arch), false, nullptr};
}

}  // namespace

Target find_target(const std::string& arch) {
  if (!arch.empty()) parse_arch(arch);  // before a GPU is opened
  return choose_target(arch, open_gpu());
}

std::vector<Target> find_targets(const std::string& archs) {
  std::vector<std::string> names;
  std::string_view rest = archs;
  do {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    if (!archs.empty()) parse_arch(name);
    if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
  } while (!rest.empty());
  const std::shared_ptr<Device> gpu = open_gpu();
  std::vector<Target> targets;
  for (const std::string& name : names) targets.push_back(choose_target(name, gpu));
  return targets;
}

Config choose_config(const Op& op, const Problem& problem, const Target& target, const Config& pinned,
                     const TemplateSet& templates, const EngineOptions& options) {
  if (options.specialize == Specialize::capacity)
    if (const std::optional<Config> by_capacity = op.parse(problem)->capacity_config(target.device)) {
      Config config = pinned;
      if (!config.fields.contains("capacity")) config.fields.set("capacity", by_capacity->fields.integer("capacity"));
      return op.parse(problem)->complete_config(target.device, config);
    }
  if (!pinned.fields.empty()) return op.parse(problem)->complete_config(target.device, pinned);
  if (!target.present || options.mode == Mode::off) return op.parse(problem)->default_config(target.device);
  const std::shared_ptr<Cache> cache = open_cache(options);
  return select(*op.parse(problem), target.device, templates, *cache, Mode::replay, target.handle->provenance())
      .config.config();
}

}  // namespace tunesmith::cli
