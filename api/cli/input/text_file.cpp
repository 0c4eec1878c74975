#include "api/cli/input/text_file.h"

#include <fstream>
#include <system_error>
#include <vector>

#include "api/cli/arguments/nearest.h"
#include "core/utf8.h"
#include "templates/row_program/language/parse.h"
#include "templates/row_program/language/programs.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

constexpr std::size_t max_text_bytes = std::size_t{64} << 20;

}  // namespace

std::filesystem::path input_path(const std::filesystem::path& file) { return file == "-" ? "/dev/stdin" : file; }

std::string read_text_file(const std::string& named_by, const std::filesystem::path& named) {
  const std::filesystem::path file = input_path(named);
  std::error_code error;
  if (!std::filesystem::exists(file, error))
    throw Error(ErrorCode::not_found, named_by, ": '", file.string(), "' does not exist");
  const auto fail = [&](const auto&... reason) {
    throw Error(ErrorCode::io, named_by, ": '", file.string(), "' ", reason...);
  };
  if (std::filesystem::is_directory(file, error)) fail("is a folder");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail("cannot be read");
  std::string text, piece(std::size_t{1} << 16, '\0');
  while (stream.read(piece.data(), static_cast<std::streamsize>(piece.size())), stream.gcount() > 0) {
    text.append(piece, 0, static_cast<std::size_t>(stream.gcount()));
    if (text.size() > max_text_bytes) fail("is longer than ", max_text_bytes, " bytes");  // a device may never end
  }
  if (stream.bad()) fail("cannot be read");
  text.erase(0, text.size() - without_mark(text).size());
  if (text.empty()) fail("is empty");
  return text;
}

std::string read_source(std::string_view field, const std::string& named_by, const std::filesystem::path& file) {
  std::error_code error;
  if (field == "program" && !std::filesystem::exists(input_path(file), error)) {
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
