// The names of the files that the remote cache keeps next to a cache file.

#include "fleet/remote.h"

namespace tunesmith::fleet {

std::filesystem::path counters_file(const std::filesystem::path& cache_file) {
  return std::filesystem::path(cache_file) += ".remote-counters";
}

std::filesystem::path generation_file(const std::filesystem::path& cache_file, const std::string& name_space,
                                      const std::string& generation) {
  return std::filesystem::path(cache_file) += ".generation-" + name_space + "-" + generation;
}

}  // namespace tunesmith::fleet
