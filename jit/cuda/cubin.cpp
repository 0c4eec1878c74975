#include "jit/cuda/cubin.h"

#include <elf.h>

#include <cstdint>
#include <cstring>

#include "tunesmith/error.h"

namespace tunesmith {
namespace {

constexpr Elf64_Half machine_cuda = 190;  // EM_CUDA

[[noreturn]] void reject(std::string_view image, const char* why) {
  throw Error(ErrorCode::device_failed, "the binary of ", image.size(), " bytes is not a loadable cubin: ", why);
}

bool within(std::string_view image, std::uint64_t offset, std::uint64_t bytes) {
  return offset <= image.size() && bytes <= image.size() - offset;
}

template <typename Header>
Header read(std::string_view image, std::uint64_t offset) {
  Header header;
  std::memcpy(&header, image.data() + offset, sizeof header);
  return header;
}

}  // namespace

void check_cubin(std::string_view image) {
  if (image.empty()) reject(image, "it is empty");
  if (image.size() < sizeof(Elf64_Ehdr) || std::memcmp(image.data(), ELFMAG, SELFMAG) != 0)
    reject(image, "it is not an ELF file");
  const auto header = read<Elf64_Ehdr>(image, 0);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != machine_cuda)
    reject(image, "it is an ELF file for another machine");
  if (header.e_shnum == 0 || header.e_shentsize != sizeof(Elf64_Shdr) ||
      !within(image, header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr)) ||
      (header.e_phnum != 0 && (header.e_phentsize != sizeof(Elf64_Phdr) ||
                               !within(image, header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr)))))
    reject(image, "its header tables are truncated");
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    const auto section = read<Elf64_Shdr>(image, header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL && !within(image, section.sh_offset, section.sh_size))
      reject(image, "a section is truncated");
  }
}

}  // namespace tunesmith
