#pragma once
// What is made of a compilation that failed: one line for people, and the source as a file.

#include <filesystem>
#include <string>
#include <string_view>

namespace tunesmith {

/// The first error of an NVRTC log as "file:line: message", in the words of the front end, or of ptxas. Empty when the log
/// has no error line.
std::string first_error(std::string_view log);

/// Writes the source as <name>-<hash>.cu to `folder` (made when missing; empty: the system's temporary folder), else to the
/// temporary folder, and returns the path; empty when neither can be written. Never throws.
std::string dump_source(const std::filesystem::path& folder, std::string_view name, std::string_view source) noexcept;

}  // namespace tunesmith
