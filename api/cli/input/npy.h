#pragma once
// .npy files: read and written in pieces, so that an array exists once in memory.

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <vector>

#include "api/cli/input/npy_header.h"

namespace tunesmith::cli {

/// A file whose header has been read and whose size fits it; the data is read on request.
class NpyReader {
 public:
  /// Throws Error(not_found) for a file that is not there, Error(io) naming the file and the fact: unreadable, not a .npy
  /// file, truncated (bytes expected and found), Fortran-ordered, big-endian, another element type, a shape that overflows.
  explicit NpyReader(const std::filesystem::path& path);

  const NpyHeader& header() const noexcept { return header_; }
  const std::filesystem::path& path() const noexcept { return path_; }
  /// The next bytes of the data, in order. Throws Error(io).
  void read(std::byte* to, std::int64_t bytes);

 private:
  std::filesystem::path path_;
  NpyHeader header_;
  std::ifstream file_;
};

/// Throws Error(io) naming the path when a file cannot be made there: before the work whose result it shall hold.
void check_writable(const std::filesystem::path& path);

/// Writes beside the target and renames, so that a file is whole or not there.
class NpyWriter {
 public:
  /// Throws Error(io) naming the path when nothing can be written there.
  explicit NpyWriter(const std::filesystem::path& path);
  /// Removes what was written, unless commit() was called.
  ~NpyWriter();
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;

  void write_header(const NpyHeader& header);
  void write(const std::byte* data, std::int64_t bytes);
  /// Throws Error(io), e.g. for a full disk.
  void commit();

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  void put(const char* data, std::int64_t bytes);

  std::filesystem::path path_, part_;
  std::ofstream file_;
};

}  // namespace tunesmith::cli
