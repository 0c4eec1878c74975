// Cache::prune: removes the named rows, then the oldest binaries, and reports what was removed.

#include <system_error>

#include "cache/binaries.h"
#include "cache/impl.h"
#include "cache/maintenance.h"
#include "cache/records.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;
using Outcome = UserFile::Outcome;
using Request = Cache::PruneRequest;
using Result = Cache::PruneResult;

Result count_rows(Connection& connection) {
  Result counts;
  counts.records = count(connection, "SELECT count(*) FROM records");
  counts.trials = count(connection, "SELECT count(*) FROM trials");
  counts.binaries = count(connection, "SELECT count(*) FROM binaries");
  counts.sources = count(connection, "SELECT count(*) FROM sources");
  return counts;
}

// Bytes in pages that are not free: about the size of the file after VACUUM.
std::int64_t bytes_in_use(Connection& connection) {
  const std::int64_t pages = count(connection, "PRAGMA page_count") - count(connection, "PRAGMA freelist_count");
  return pages * count(connection, "PRAGMA page_size");
}

Result remove(Connection& connection, const Request& request) {
  const Result before = count_rows(connection);
  Result result;
  for (const TuningKey& key : request.records) erase_record(connection, key);
  for (const std::string& fingerprint : request.binaries) erase_binary(connection, fingerprint);
  while (request.max_file_bytes && bytes_in_use(connection) > *request.max_file_bytes) {
    std::string fingerprint = erase_oldest_binary(connection);
    if (fingerprint.empty()) break;
    result.for_size.push_back(std::move(fingerprint));
  }
  const Result after = count_rows(connection);
  result.records = before.records - after.records;
  result.trials = before.trials - after.trials;
  result.binaries = before.binaries - after.binaries;
  result.sources = before.sources - after.sources;
  result.bytes_after = bytes_in_use(connection);
  return result;
}

// A dry run does the same work in a transaction that is not committed, so that both report the same.
Outcome run(UserFile& user, const Request& request, Result& result) {
  if (!request.dry_run) return user.write([&](Connection& connection) { result = remove(connection, request); });
  return user.read([&](Connection& connection) {
    const Transaction transaction(connection);
    result = remove(connection, request);
  });
}

std::int64_t size_of_file(const fs::path& file) {
  std::error_code no_file;
  const auto bytes = fs::file_size(file, no_file);
  return no_file ? 0 : static_cast<std::int64_t>(bytes);
}

}  // namespace

std::vector<BinaryInfo> Cache::list_binaries() {
  return impl_->enter([&](Layers& layers) {
    std::vector<BinaryInfo> list;
    UserFile* user = layers.user();
    if (user) user->read([&](Connection& connection) { list = tunesmith::list_binaries(connection); });
    return list;
  });
}

Cache::PruneResult Cache::prune(const PruneRequest& request) {
  return impl_->enter([&](Layers& layers) {
    require_sqlite(layers);
    PruneResult result;
    UserFile* user = layers.user();
    if (!user) return result;
    const auto fail = [&] { throw Error(ErrorCode::cache_failed, "cannot prune the cache: ", user->failure()); };
    // Do not create a file only to prune it.
    const Outcome present = user->read([](Connection&) {});
    if (present == Outcome::absent) return result;
    if (present == Outcome::failed) fail();
    const std::int64_t bytes_before = size_of_file(user->path());
    if (run(*user, request, result) != Outcome::done) fail();
    result.bytes_before = bytes_before;
    if (request.dry_run) return result;
    // Even if no row was removed: an earlier removal may have left free pages.
    give_space_back(*user);
    result.bytes_after = size_of_file(user->path());
    return result;
  });
}

}  // namespace tunesmith
