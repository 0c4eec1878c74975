#pragma once
// Identifies the build of a shared library without loading it.

#include <filesystem>
#include <string>

namespace tunesmith {

/// Returns the ELF build-id in hex. A library without one is identified by its size and a hash of its first 64 KiB:
/// "size=N,head=HASH". Returns an empty string if the file cannot be read; never throws for a bad file.
std::string build_id(const std::filesystem::path& library);

}  // namespace tunesmith
