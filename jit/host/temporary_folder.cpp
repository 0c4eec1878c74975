#include "jit/host/temporary_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "core/temporary_directory.h"
#include "tunesmith/error.h"

namespace tunesmith::host {

TemporaryFolder::TemporaryFolder() {
  const std::filesystem::path parent = temporary_directory();
  std::string pattern = (parent / "tunesmith-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    throw Error(ErrorCode::io, "cannot create a folder in ", parent.string(), ": ", std::strerror(errno));
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::write(std::string_view name, std::string_view contents) const {
  const std::filesystem::path file = path_ / name;
  std::ofstream out(file, std::ios::binary);
  out.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  out.close();
  if (!out) throw Error(ErrorCode::io, "cannot write ", contents.size(), " bytes to ", file.string());
  return file.string();
}

std::string TemporaryFolder::read(std::string_view name) const {
  std::ifstream in(path_ / name, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

}  // namespace tunesmith::host
