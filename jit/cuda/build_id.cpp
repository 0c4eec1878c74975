#include "jit/cuda/build_id.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/hash.h"

namespace tunesmith {
namespace {

class File {
 public:
  explicit File(const std::filesystem::path& path) : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  /// Reads up to `bytes` bytes at `offset`; fewer at the end of the file.
  std::string read(std::uint64_t offset, std::size_t bytes) const {
    std::string text(bytes, '\0');
    const ssize_t got = pread(descriptor_, text.data(), bytes, static_cast<off_t>(offset));
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }
  std::uint64_t size() const {
    struct stat facts = {};
    return fstat(descriptor_, &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : 0;
  }

 private:
  int descriptor_;
};

constexpr std::size_t max_notes_bytes = 64 << 10;

std::string hex(std::string_view bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += digits[static_cast<unsigned char>(c) >> 4];
    text += digits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

std::string find_build_id(std::string_view notes) {
  const auto padded = [](std::size_t bytes) { return (bytes + 3) & ~std::size_t{3}; };
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data(), sizeof note);
    notes.remove_prefix(sizeof note);
    const std::size_t name_bytes = padded(note.n_namesz), value_bytes = padded(note.n_descsz);
    if (notes.size() < name_bytes || notes.size() - name_bytes < note.n_descsz) return {};
    if (note.n_type == NT_GNU_BUILD_ID && notes.substr(0, 4) == std::string_view("GNU\0", 4))
      return hex(notes.substr(name_bytes, note.n_descsz));
    notes.remove_prefix(std::min(notes.size(), name_bytes + value_bytes));
  }
  return {};
}

}  // namespace

std::string build_id(const std::filesystem::path& library) {
  const File file(library);
  if (!file.is_open()) return {};
  const std::string head = file.read(0, sizeof(Elf64_Ehdr));
  Elf64_Ehdr header;
  if (head.size() == sizeof header) {
    std::memcpy(&header, head.data(), sizeof header);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
        header.e_phentsize == sizeof(Elf64_Phdr)) {
      const std::string table = file.read(header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr));
      for (std::size_t at = 0; at + sizeof(Elf64_Phdr) <= table.size(); at += sizeof(Elf64_Phdr)) {
        Elf64_Phdr segment;
        std::memcpy(&segment, table.data() + at, sizeof segment);
        if (segment.p_type != PT_NOTE) continue;
        const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(segment.p_filesz, max_notes_bytes));
        if (std::string id = find_build_id(file.read(segment.p_offset, bytes)); !id.empty()) return id;
      }
    }
  }
  return "size=" + std::to_string(file.size()) + ",head=" + hash_hex(file.read(0, 64 << 10));
}

}  // namespace tunesmith
