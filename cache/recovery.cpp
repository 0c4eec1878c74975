#include "cache/recovery.h"

#include <array>
#include <ctime>
#include <string>
#include <system_error>

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

fs::path with_suffix(fs::path path, const std::string& suffix) { return path += suffix; }

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &parts);
  return text.data();
}

}  // namespace

fs::path move_aside(const fs::path& file) {
  const fs::path wanted = with_suffix(file, ".corrupt-" + utc_now());
  fs::path aside = wanted;
  std::error_code ignored;
  for (int n = 2; fs::exists(fs::symlink_status(aside, ignored)); ++n) aside = with_suffix(wanted, "-" + std::to_string(n));
  // Move journals first: one that remained would be played back into the next file of this name.
  for (const char* suffix : {"-journal", "-wal", "-shm"}) {
    const fs::path journal = with_suffix(file, suffix);
    if (fs::exists(fs::symlink_status(journal, ignored))) fs::rename(journal, with_suffix(aside, suffix));
  }
  fs::rename(file, aside);
  return aside;
}

}  // namespace tunesmith
