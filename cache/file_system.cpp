#include "cache/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

// Values of f_type; most are not in <linux/magic.h>.
constexpr std::uint32_t network_types[] = {
    0x00006969,  // NFS
    0xff534d42,  // CIFS
    0xfe534d42,  // SMB 2
    0x0000517b,  // SMB
    0x0bd00bd0,  // Lustre
    0x47504653,  // GPFS (Spectrum Scale)
    0x00c36400,  // Ceph
    0x65735546,  // FUSE: sshfs, GlusterFS, s3fs and others
    0x19830326,  // BeeGFS
    0xaad7aaea,  // PanFS
    0x20030528,  // OrangeFS
    0x01021997,  // 9P
    0x5346414f,  // OpenAFS
    0x6b414653,  // AFS
    0x73757245,  // Coda
    0x01161970,  // GFS2
    0x7461636f,  // OCFS2
};

// Returns the file itself or its nearest existing parent folder.
fs::path nearest_existing(fs::path path) {
  std::error_code ignored;
  while (!fs::exists(path, ignored) && path.has_relative_path()) path = path.parent_path();
  return path;
}

std::string why_others_can_change(const fs::path& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return path.string() + ": " + std::generic_category().message(errno);
  if (facts.st_uid != geteuid() && facts.st_uid != 0)
    return path.string() + " belongs to user " + std::to_string(facts.st_uid) + "; make this user or root its owner (chown)";
  // Nobody else can replace a file in a sticky folder such as /tmp, but anybody can put a journal next to it that SQLite
  // would play back.
  if (S_ISDIR(facts.st_mode) && (facts.st_mode & S_ISVTX) != 0 && (facts.st_mode & S_IWOTH) != 0)
    return "others can create files in " + path.string() +
           ", such as a journal that SQLite would apply to the cache; keep the cache in a folder of your own there";
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return "others can write " + path.string() + "; run: chmod go-w '" + path.string() + "'";
  return "";
}

}  // namespace

std::optional<FileIdentity> file_identity(const fs::path& file) {
  struct stat facts {};
  if (stat(file.c_str(), &facts) != 0) return std::nullopt;
  return FileIdentity{facts.st_dev, facts.st_ino, S_ISREG(facts.st_mode)};
}

bool is_network_file_system(std::int64_t f_type) noexcept {
  // f_type is signed on some architectures, so compare its 32 bits.
  return std::ranges::find(network_types, static_cast<std::uint32_t>(f_type)) != std::end(network_types);
}

bool on_network_file_system(const fs::path& file) {
  struct statfs facts {};
  return statfs(nearest_existing(file).c_str(), &facts) == 0 && is_network_file_system(facts.f_type);
}

std::string why_not_writable(const fs::path& file) {
  const fs::path nearest = nearest_existing(file);
  struct stat facts {};
  if (stat(nearest.c_str(), &facts) != 0) return nearest.string() + ": " + std::generic_category().message(errno);
  const bool is_file = nearest == file;
  if (is_file && !S_ISREG(facts.st_mode)) return nearest.string() + " is not a regular file";
  if (!is_file && !S_ISDIR(facts.st_mode)) return nearest.string() + " is not a folder";
  if (access(nearest.c_str(), is_file ? W_OK : W_OK | X_OK) != 0) {
    return nearest.string() + ": " + std::generic_category().message(errno);
  }
  // SQLite creates the rollback journal in the same folder.
  if (is_file && access(file.parent_path().c_str(), W_OK | X_OK) != 0) {
    return file.parent_path().string() + ": " + std::generic_category().message(errno);
  }
  return "";
}

std::string why_not_private(const fs::path& file) {
  const fs::path path = resolved(file);
  const std::string of_file = why_others_can_change(path);
  return of_file.empty() ? why_others_can_change(path.parent_path()) : of_file;
}

std::string create_private_folder(const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || fs::is_directory(folder, error)) return "";
  if (folder.has_relative_path())
    if (std::string why = create_private_folder(folder.parent_path()); !why.empty()) return why;
  if (mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return "";
  return std::generic_category().message(errno);
}

void create_private_file(const fs::path& file) {
  if (const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600); descriptor >= 0)
    close(descriptor);
}

fs::path resolved(const fs::path& file) {
  std::error_code error;
  const fs::path absolute = fs::absolute(file, error);
  if (error) return file;
  const fs::path canonical = fs::weakly_canonical(absolute, error);
  return error ? absolute : canonical;
}

}  // namespace tunesmith
