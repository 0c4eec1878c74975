#pragma once
// Text files that a flag or a spec names.

#include <filesystem>
#include <string>
#include <string_view>

namespace tunesmith::cli {

/// Returns the path of a file to read: standard input for "-".
std::filesystem::path input_path(const std::filesystem::path& file);

/// Reads the whole file, which may be "-" or a pipe, without a byte-order mark. Throws Error(not_found | io) that begins
/// with `named_by`: a flag or a place in a spec.
std::string read_text_file(const std::string& named_by, const std::filesystem::path& named);

/// Does the same for a field that takes a file. For a program, the name of a shipped row program ("rms_norm") stands for it
/// where no file has this name, and the program is parsed for errors that name the file.
std::string read_source(std::string_view field, const std::string& named_by, const std::filesystem::path& file);

}  // namespace tunesmith::cli
