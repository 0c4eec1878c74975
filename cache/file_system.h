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

/// Reports whether statfs's f_type names a file system with unreliable locks and renames: NFS, SMB, Lustre, GPFS, Ceph, FUSE
/// and similar.
bool is_network_file_system(std::int64_t f_type) noexcept;
/// Reports the same for the file system of `file`, which need not exist.
bool on_network_file_system(const std::filesystem::path& file);

/// Returns the reason why `file` cannot be written or created, without trying it; empty if none is known.
std::string why_not_writable(const std::filesystem::path& file);

/// Returns why users other than this one and root can change `file`, and what prevents it; empty if they cannot. Looks at
/// the owners and permissions of the file and of its folder.
std::string why_not_private(const std::filesystem::path& file);

/// Creates a folder and its missing parents for this user only (mode 0700). Returns the reason of a failure; empty on
/// success.
std::string create_private_folder(const std::filesystem::path& folder);
/// Creates an empty file for this user only (mode 0600), unless the file exists. Failures show when the file is opened.
void create_private_file(const std::filesystem::path& file);

/// Makes a path absolute and resolves symbolic links as far as it exists. SQLite names the journal after this path, and this
/// is the file to rename when it is moved aside.
std::filesystem::path resolved(const std::filesystem::path& file);

}  // namespace tunesmith
