#pragma once
// Text files that a flag or a spec names.

#include <filesystem>
#include <string>

namespace tunesmith::cli {

/// Reads the whole file. Throws Error(not_found | io) that begins with `named_by`: a flag or a place in a spec.
std::string read_text_file(const std::string& named_by, const std::filesystem::path& file);

}  // namespace tunesmith::cli
