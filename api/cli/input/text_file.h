#pragma once
// Files of text that a flag or a spec names.

#include <filesystem>
#include <string>

namespace tunesmith::cli {

/// The whole file. Throws Error(not_found | io), which begins with `named_by`: a flag, a place in a spec.
std::string read_text_file(const std::string& named_by, const std::filesystem::path& file);

}  // namespace tunesmith::cli
