#include "api/cli/input/npy.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "api/cli/input/text_file.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::uint32_t max_header_bytes = 1u << 20;  // ours take 118; a damaged length must not allocate gigabytes

template <typename... Parts>
[[noreturn]] void fail(const fs::path& path, const Parts&... parts) {
  throw Error(ErrorCode::io, "'", path.string(), "' ", parts...);
}

/// Reads up to `count` bytes.
std::string take(std::ifstream& file, std::size_t count) {
  std::string bytes(count, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(count));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

}  // namespace

NpyReader::NpyReader(const fs::path& named) : path_(input_path(named)) {
  const fs::path& path = path_;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw Error(ErrorCode::not_found, "'", path.string(), "' does not exist; expected a .npy file");
  if (fs::is_directory(status)) fail(path, "is a folder; expected a .npy file");
  is_pipe_ = !fs::is_regular_file(status);
  errno = 0;
  file_.open(path, std::ios::binary);
  if (!file_) fail(path, "cannot be read: ", std::strerror(errno));

  const std::string start = take(file_, magic.size() + 2);
  if (!std::string_view(start).starts_with(magic)) fail(path, "is not a .npy file: it does not begin with \\x93NUMPY");
  if (start.size() < magic.size() + 2) fail(path, "is truncated: it ends after ", start.size(), " bytes");
  const int version = static_cast<unsigned char>(start[magic.size()]);
  if (version < 1 || version > 3) fail(path, "is a .npy file of version ", version, "; versions 1 to 3 can be read");
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::string length_text = take(file_, length_bytes);
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < length_text.size(); ++i)
    length |= static_cast<std::uint32_t>(static_cast<unsigned char>(length_text[i])) << (8 * i);
  if (length_text.size() < length_bytes || length > max_header_bytes)
    fail(path, length_text.size() < length_bytes ? "is truncated in its header" : "has a header of absurd length");
  const std::string dictionary = take(file_, length);
  if (dictionary.size() < length)
    fail(path, "is truncated in its header: ", length, " bytes expected, ", dictionary.size(), " found");
  try {
    header_ = parse_npy_dictionary(dictionary);
  } catch (const Error& cause) {
    fail(path, cause.what());
  }

  left_ = header_.data_bytes();
  if (is_pipe_) return;  // its length is known after reading it
  const auto data_begin = static_cast<std::int64_t>(start.size() + length_bytes + length);
  const std::int64_t found = static_cast<std::int64_t>(fs::file_size(path)) - data_begin;
  if (found < header_.data_bytes())
    fail(path, "is truncated: its shape needs ", header_.data_bytes(), " bytes of data, the file has ", found);
  if (found > header_.data_bytes())
    fail(path, "is longer than its shape: ", header_.data_bytes(), " bytes of data expected, the file has ", found);
}

void NpyReader::read(std::byte* to, std::int64_t bytes) {
  file_.read(reinterpret_cast<char*>(to), bytes);
  if (file_.gcount() != bytes)
    fail(path_, is_pipe_ ? "is truncated: its shape needs more bytes of data" : "could not be read to its end");
  left_ -= bytes;
  if (is_pipe_ && left_ == 0 && file_.peek() != std::ifstream::traits_type::eof())
    fail(path_, "is longer than its shape: ", header_.data_bytes(), " bytes of data expected");
}

void check_writable(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) fail(path, "is a folder; expected the name of a file to write");
  // The file is replaced as a whole: a device such as /dev/null would become a file, for all programs.
  if (fs::exists(status) && !fs::is_regular_file(status))
    fail(path, "is not a regular file; expected the name of a file to write");
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error)) fail(path, "cannot be written: there is no folder '", folder.string(), "'");
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    fail(path, "cannot be written: folder '", folder.string(), "': ", std::strerror(errno));
}

NpyWriter::NpyWriter(const fs::path& path) : path_(path), part_(path.string() + ".part" + std::to_string(getpid())) {
  check_writable(path);
  errno = 0;
  file_.open(part_, std::ios::binary | std::ios::trunc);
  if (!file_) fail(path, "cannot be written: ", std::strerror(errno));
}

NpyWriter::~NpyWriter() {
  std::error_code ignored;
  if (!part_.empty()) fs::remove(part_, ignored);
}

void NpyWriter::write_header(const NpyHeader& header) {
  const std::string text = npy_header_text(header);
  put(text.data(), static_cast<std::int64_t>(text.size()));
}

void NpyWriter::write(const std::byte* data, std::int64_t bytes) { put(reinterpret_cast<const char*>(data), bytes); }

void NpyWriter::put(const char* data, std::int64_t bytes) {
  errno = 0;
  if (!file_.write(data, bytes)) fail(path_, "cannot be written: ", std::strerror(errno));
}

void NpyWriter::commit() {
  errno = 0;
  file_.close();
  if (!file_) fail(path_, "cannot be written: ", std::strerror(errno));
  std::error_code error;
  fs::rename(part_, path_, error);
  if (error) fail(path_, "cannot be written: ", error.message());
  part_.clear();
}

}  // namespace tunesmith::cli
