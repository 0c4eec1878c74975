#include "templates/config_values.h"

namespace tunesmith {

std::string source_name(LoadHint hint) { return "tunesmith::LoadHint::" + std::string(enum_name(hint)); }
std::string source_name(StoreHint hint) { return "tunesmith::StoreHint::" + std::string(enum_name(hint)); }

Config with_values(Config config, const Config& pinned) {
  for (const auto& [field, value] : pinned.fields) config.fields.set(field, value);
  return config;
}

void require_usable(const Config& config, const std::string& reason) {
  if (!reason.empty()) throw Error(ErrorCode::invalid_argument, "config '", config.text(), "' cannot be used: ", reason);
}

std::string why_too_many(int threads, const DeviceInfo& device) {
  if (threads <= device.max_threads_per_block) return {};
  return "threads is " + std::to_string(threads) + "; the device allows " + std::to_string(device.max_threads_per_block);
}

}  // namespace tunesmith
