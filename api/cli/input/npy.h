#pragma once
// Reads and writes .npy files in pieces, so that an array exists once in memory.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <vector>

#include "api/cli/input/npy_header.h"

namespace tunesmith::cli {

/// A file whose header is read and matches its size; read() reads the data. "-" is standard input. The size of a pipe is
/// compared once it has been read.
class NpyReader {
 public:
  /// Throws Error(not_found) for a missing file, and Error(io) that names the file and the problem: unreadable, not a .npy
  /// file, truncated (bytes expected and found), Fortran-ordered, big-endian, another element type, a shape that overflows.
  explicit NpyReader(const std::filesystem::path& named);

  const NpyHeader& header() const noexcept { return header_; }
  const std::filesystem::path& path() const noexcept { return path_; }
  /// The next bytes of the data, in order. Throws Error(io).
  void read(std::byte* to, std::int64_t bytes);

 private:
  std::filesystem::path path_;
  NpyHeader header_;
  std::ifstream file_;
  bool is_pipe_ = false;   ///< or another file whose length is unknown
  std::int64_t left_ = 0;  ///< bytes of the data
};

/// Throws Error(io) that names the path if no file can be written there. Call it before the work.
void check_writable(const std::filesystem::path& path);

/// Writes to a temporary file and renames it, so that the target is complete or missing.
class NpyWriter {
 public:
  /// Throws Error(io) that names the path if it cannot be written.
  explicit NpyWriter(const std::filesystem::path& path);
  /// Removes the temporary file unless commit() was called.
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
