#pragma once
// What the cache asks the operating system about a file without opening it: opening and closing a database file beside
// SQLite would drop the locks that SQLite holds on it in this process (POSIX locks belong to the process, not to the
// handle).

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace tunesmith {

/// Which file stands behind a name.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool regular = false;
  bool operator==(const FileIdentity&) const = default;
};

/// Empty when there is no such file (or nothing may be known about it).
std::optional<FileIdentity> file_identity(const std::filesystem::path& file);

/// Whether statfs's f_type names a file system whose locks and renames cannot be trusted like local ones: NFS, SMB, Lustre,
/// GPFS, Ceph, FUSE and their kin.
bool is_network_file_system(std::int64_t f_type) noexcept;
/// The same for the file system that holds `file`, or would hold it.
bool on_network_file_system(const std::filesystem::path& file);

/// Why `file` cannot be written or created, without trying; empty when nothing speaks against it.
std::string why_not_writable(const std::filesystem::path& file);

/// Absolute, symbolic links resolved as far as the path exists: the name under which SQLite keeps the journal, and the one
/// that has to be renamed when the file is moved aside.
std::filesystem::path resolved(const std::filesystem::path& file);

}  // namespace tunesmith
