// Copies the contents of a remote store into the user's file.

#include <ctime>

#include "cache/binaries.h"
#include "cache/impl.h"
#include "cache/maintenance.h"
#include "cache/records.h"

namespace tunesmith {

void Cache::import_shared(const std::vector<SharedTuning>& tunings, const std::vector<BinaryRecord>& binaries) {
  impl_->enter([&](Layers& layers) {
    require_sqlite(layers);
    const auto write = [&](Connection& connection) {
      for (const SharedTuning& tuning : tunings) write_record(connection, tuning.record, tuning.trials);
      for (const BinaryRecord& binary : binaries) write_binary(connection, {binary, std::time(nullptr)});
    };
    UserFile* const user = layers.user();
    if (user == nullptr || user->write(write) != UserFile::Outcome::done)
      throw Error(ErrorCode::cache_failed,
                  "nothing was stored: ", user == nullptr ? "there is no cache file" : user->failure());
  });
}

}  // namespace tunesmith
