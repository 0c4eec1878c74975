#include "jit/cuda/nvrtc_diagnostics.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "core/hash.h"
#include "core/temporary_directory.h"

namespace tunesmith {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// The front end prints "file(12): error: message" or "file(12): error #20: message"; also "catastrophic error".
std::string front_end_error(std::string_view line) {
  const std::size_t mark = line.find("): ");
  if (mark == std::string_view::npos) return {};
  const std::size_t open = line.rfind('(', mark);
  if (open == std::string_view::npos || !is_number(line.substr(open + 1, mark - open - 1))) return {};
  const std::string_view rest = line.substr(mark + 3);
  const std::size_t colon = rest.find(": ");
  if (colon == std::string_view::npos) return {};
  const std::string_view kind = rest.substr(0, colon);
  if (!kind.starts_with("error") && !kind.starts_with("catastrophic error")) return {};
  return std::string(line.substr(0, open)) + ":" + std::string(line.substr(open + 1, mark - open - 1)) + ": " +
         std::string(trimmed(rest.substr(colon + 2)));
}

// ptxas prints "ptxas application ptx input, line 23; error   : message", "ptxas error   : ...", or fatal. NVRTC itself
// prints "nvrtc: error: message".
bool is_tool_error(std::string_view line) {
  if (!line.starts_with("ptxas") && !line.starts_with("nvrtc") && !line.starts_with("Command-line error")) return false;
  return line.find("error") != std::string_view::npos || line.find("fatal") != std::string_view::npos;
}

bool write_file(const std::filesystem::path& path, std::string_view text) {
  // O_NOFOLLOW because temporary folders are shared and the name is predictable.
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (file < 0) return false;
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written <= 0) break;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return close(file) == 0 && text.empty();
}

}  // namespace

std::string first_error(std::string_view log) {
  std::string tool_error;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(log.size(), line.size() + 1));
    if (std::string error = front_end_error(line); !error.empty()) return error;
    if (tool_error.empty() && is_tool_error(line)) tool_error = trimmed(line);
  }
  return tool_error;
}

std::string dump_source(const std::filesystem::path& folder, std::string_view name, std::string_view source) noexcept try {
  std::string file;
  for (const char c : name.substr(0, name.rfind('.'))) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    file += plain ? c : '_';
  }
  if (file.size() > 100) file.resize(100);
  file += "-" + hash_hex(source).substr(0, 16) + ".cu";

  std::error_code error;
  if (!folder.empty()) {
    std::filesystem::create_directories(folder, error);
    if (write_file(folder / file, source)) return (folder / file).string();
  }
  const std::filesystem::path path = temporary_directory() / file;
  return write_file(path, source) ? path.string() : std::string();
} catch (...) {
  return {};
}

}  // namespace tunesmith
