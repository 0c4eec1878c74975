#include "cache/file_system.h"

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

fs::path resolved(const fs::path& file) {
  std::error_code error;
  const fs::path absolute = fs::absolute(file, error);
  if (error) return file;
  const fs::path canonical = fs::weakly_canonical(absolute, error);
  return error ? absolute : canonical;
}

}  // namespace tunesmith
