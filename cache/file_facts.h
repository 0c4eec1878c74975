#pragma once
// What a cache file is, without changing it: for `tunesmith doctor`.

#include <cstdint>
#include <filesystem>
#include <string>

namespace tunesmith {

struct CacheFileFacts {
  enum class State : std::uint8_t {
    absent,       ///< no such file, or an empty one; the first write makes a cache of it
    current,      ///< a cache of this version
    older,        ///< a cache of an older version, which the first use migrates
    newer,        ///< a cache of a later version; not used
    foreign,      ///< a database of another program; not used
    damaged,      ///< no database, or a damaged one; the first use moves it aside
    not_regular,  ///< a folder, a device or a pipe; not used
    unreadable,   ///< this user may not read it
  };
  std::filesystem::path file;
  State state = State::absent;
  int schema = 0;      ///< 0 unless current, older or newer
  std::string reason;  ///< predicate such as "is a database of another program"; empty if absent or current
};

/// Looks at a file. Never throws, and never changes the file.
CacheFileFacts examine_cache_file(const std::filesystem::path& file) noexcept;

}  // namespace tunesmith
