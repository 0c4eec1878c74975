#include "tests/support/source_folder.h"

namespace tunesmith {

const std::filesystem::path& source_folder() {
  static const std::filesystem::path folder = TUNESMITH_SOURCE_FOLDER;
  return folder;
}

}  // namespace tunesmith
