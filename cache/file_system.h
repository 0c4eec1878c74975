#pragma once
// Queries about a file that do not open it. Opening and closing a database file outside of SQLite would drop the locks that
// SQLite holds on it in this process, because POSIX locks belong to the process and not to the handle.

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace tunesmith {

/// Identifies the file that a name refers to.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool regular = false;
  bool operator==(const FileIdentity&) const = default;
};

/// Returns the identity of a file; empty if there is no such file or it is not accessible.
std::optional<FileIdentity> file_identity(const std::filesystem::path& file);

/// Reports whether statfs's f_type is that of a file system with unreliable locks and renames: NFS, SMB, Lustre, GPFS, Ceph,
/// FUSE and similar.
bool is_network_file_system(std::int64_t f_type) noexcept;
/// Reports the same for the file system of `file`, which need not exist.
bool on_network_file_system(const std::filesystem::path& file);

/// Returns the reason why `file` cannot be written or created, without trying it; empty if none is known.
std::string why_not_writable(const std::filesystem::path& file);

/// Makes a path absolute and resolves symbolic links as far as it exists. SQLite names the journal after this path, and this
/// is the file to rename when it is moved aside.
std::filesystem::path resolved(const std::filesystem::path& file);

}  // namespace tunesmith
