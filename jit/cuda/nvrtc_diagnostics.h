#pragma once
// Diagnostics of a failed compilation: the first error as one line, and the source as a file.

#include <filesystem>
#include <string>
#include <string_view>

namespace tunesmith {

/// Returns the first error of an NVRTC log as "file:line: message", with the message of the front end or of ptxas. Empty if
/// the log has no error line.
std::string first_error(std::string_view log);

/// Writes the source as <name>-<hash>.cu to `folder` and returns the path. Creates the folder if it is missing. If `folder`
/// is empty or not writable, uses the system's temporary folder; returns an empty string if that fails too. Never throws.
std::string dump_source(const std::filesystem::path& folder, std::string_view name, std::string_view source) noexcept;

}  // namespace tunesmith
