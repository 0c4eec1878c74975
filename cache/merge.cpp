#include "cache/merge.h"

#include <string>
#include <utility>
#include <vector>

#include "cache/binaries.h"
#include "cache/records.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

// Wraps an error of the target, so that the loop over the origin does not mistake it for its own.
struct TargetFailed {
  SqliteError error;
};

template <typename Work>
auto on_target(const Work& work) {
  try {
    return work();
  } catch (const SqliteError& error) {
    throw TargetFailed{error};
  }
}

std::int64_t merge_record(Connection& to, const TuningRecord& record, const std::vector<Trial>& trials) {
  const auto present = read_record(to, record.key);
  if (present.row && present.row->created_unix_s >= record.created_unix_s) {
    return add_missing_trials(to, record.key, trials);
  }
  write_record(to, record, trials);
  return 1 + static_cast<std::int64_t>(trials.size());
}

std::int64_t merge_binary(Connection& to, const StoredBinary& stored) {
  const auto present = read_binary(to, stored.binary.fingerprint);
  if (present.row && present.row->created_unix_s >= stored.created_unix_s) return 0;
  write_binary(to, stored);
  return 1;
}

std::int64_t merge_source(Connection& to, const std::string& hash, const std::string& source) {
  return read_source(to, hash).row ? 0 : write_source(to, hash, source);
}

}  // namespace

std::int64_t merge(Connection& to, Connection& from, const std::string& from_name, bool with_code) {
  std::int64_t taken = 0;
  try {
    for_each_record(from, [&](TuningRecord&& record, bool healthy) {
      if (!healthy) return;
      const auto trials = read_trials(from, record.key).row.value_or(std::vector<Trial>());
      taken += on_target([&] { return merge_record(to, record, trials); });
    });
    if (!with_code) return taken;
    for_each_binary(from, [&](StoredBinary&& stored, bool healthy) {
      if (healthy) taken += on_target([&] { return merge_binary(to, stored); });
    });
    for_each_source(from, [&](std::string&& hash, std::string&& source, bool healthy) {
      if (healthy) taken += on_target([&] { return merge_source(to, hash, source); });
    });
  } catch (const TargetFailed& failed) {
    throw failed.error;
  } catch (const SqliteError& error) {
    throw Error(ErrorCode::cache_failed, "cannot read '", from_name, "': ", error.what());
  }
  return taken;
}

}  // namespace tunesmith
