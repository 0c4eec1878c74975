#pragma once
// Which build of a shared library a file holds, told without loading it.

#include <filesystem>
#include <string>

namespace tunesmith {

/// The ELF build-id in hex. A library without one is identified by its size and a hash of its first 64 KiB:
/// "size=N,head=HASH". Empty when the file cannot be read. A few preads; never throws for a bad file.
std::string build_id(const std::filesystem::path& library);

}  // namespace tunesmith
