#include "api/cli/input/text_file.h"

#include <fstream>
#include <sstream>
#include <vector>

#include "api/cli/arguments/nearest.h"
#include "templates/row_program/parse.h"
#include "templates/row_program/programs.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {

std::string read_text_file(const std::string& named_by, const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error))
    throw Error(ErrorCode::not_found, named_by, ": '", file.string(), "' does not exist");
  const auto fail = [&](const char* reason) { throw Error(ErrorCode::io, named_by, ": '", file.string(), "' ", reason); };
  if (!std::filesystem::is_regular_file(file, error)) fail("is not a regular file");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail("cannot be read");
  if (stream.peek() == std::ifstream::traits_type::eof()) fail("is empty");
  std::ostringstream text;
  if (!(text << stream.rdbuf())) fail("cannot be read");
  return text.str();
}

std::string read_source(std::string_view field, const std::string& named_by, const std::filesystem::path& file) {
  std::error_code error;
  if (field == "program" && !std::filesystem::exists(file, error)) {
    if (std::string shipped = row_program::shipped_program(file.string()); !shipped.empty()) return shipped;
    std::vector<std::string> names;
    for (const auto& [name, program] : row_program::shipped_programs()) {
      names.emplace_back(name);
      names.push_back(std::string(name) + "_gradient");
    }
    throw Error(ErrorCode::not_found, named_by, ": '", file.string(), "' is neither a file nor a shipped program",
                did_you_mean(file.string(), names));
  }
  std::string text = read_text_file(named_by, file);
  if (field == "program") row_program::parse(text, file.string());  // for errors that name the file
  return text;
}

}  // namespace tunesmith::cli
