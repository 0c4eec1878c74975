#pragma once
// The folder for temporary files.

#include <filesystem>
#include <system_error>

namespace tunesmith {

/// Returns the folder that TMPDIR names, or /tmp if that is none (empty, missing or no folder).
inline std::filesystem::path temporary_directory() {
  std::error_code none;
  std::filesystem::path named = std::filesystem::temp_directory_path(none);
  return none ? std::filesystem::path("/tmp") : named;
}

}  // namespace tunesmith
