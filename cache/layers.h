#pragma once
// Where rows are looked for, in order: what this process could not persist, the user's file, the system files.

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/cache.h"
#include "cache/row.h"
#include "cache/system_file.h"
#include "cache/user_file.h"
#include "cache/warnings.h"

namespace tunesmith {

/// A row and whether it came from a system file.
template <typename Row>
struct Found {
  Row row;
  bool shipped = false;
};

/// All state of a Cache in one process. Not thread-safe: hold `mutex`.
class Layers {
 public:
  /// `in_doubt`: this process was forked while a thread of its parent was inside SQLite. Its global mutexes may be held by
  /// that thread, which does not exist here, and its view of the file locks is wrong: SQLite is then never called.
  Layers(const CacheOptions& options, bool in_doubt);

  template <typename Row>
  using Read = std::function<Lookup<Row>(Connection&)>;
  /// Removes the damaged rows of the table that a Read looked at, e.g. sweep_records.
  using Sweep = std::vector<std::string> (*)(Connection&, bool remove);

  /// The first layer that has the row. A damaged row of the user's file is removed on the way.
  template <typename Row>
  std::optional<Found<Row>> find(const Read<Row>& read, Sweep sweep);
  std::vector<TuningRecord> nearest(const TuningKey& key, int limit);
  std::vector<TuningRecord> older(const TuningKey& key, int limit);
  std::vector<TuningRecord> all_records();

  /// Writes to the user's file, or to memory when that does not work. `forget` removes what an earlier, failed call has left
  /// in memory under the same key.
  void store(const UserFile::Work& write, const UserFile::Work& forget);

  /// Rows for this process only; opened on first use.
  Connection& memory();
  bool in_doubt() const noexcept { return in_doubt_; }
  Connection* memory_if_used() { return memory_ ? &*memory_ : nullptr; }
  UserFile* user() { return user_ ? &*user_ : nullptr; }
  std::vector<SystemFile>& system() { return system_; }

  std::mutex mutex;
  Warnings warnings;

 private:
  // 0: memory, 1: user, 2...: system. Returns false when the layer is not there or failed.
  bool read_layer(std::size_t layer, const UserFile::Work& work);
  std::size_t layer_count() const { return 2 + system_.size(); }
  template <typename Row>
  Lookup<Row> find_in(std::size_t layer, const Read<Row>& read, Sweep sweep);

  const bool in_doubt_;
  std::optional<Connection> memory_;
  std::optional<UserFile> user_;
  std::vector<SystemFile> system_;
};

template <typename Row>
Lookup<Row> Layers::find_in(std::size_t layer, const Read<Row>& read, Sweep sweep) {
  Lookup<Row> found;
  if (!read_layer(layer, [&](Connection& connection) { found = read(connection); })) return {};
  if (!found.damaged || layer != 1) return found;
  user_->write([&](Connection& connection) {
    const auto problems = sweep(connection, true);
    found = read(connection);
    if (found.damaged) throw SqliteError(SQLITE_CORRUPT, "an index does not match its table");
    if (!problems.empty()) {
      warnings.once("damaged rows",
                    "cache " + user_->path().string() + " had damaged rows, which were removed: " + problems.front());
    }
  });
  return found;
}

template <typename Row>
std::optional<Found<Row>> Layers::find(const Read<Row>& read, Sweep sweep) {
  for (std::size_t layer = 0; layer < layer_count(); ++layer) {
    auto found = find_in(layer, read, sweep);
    if (found.row) return Found<Row>{std::move(*found.row), layer >= 2};
  }
  return std::nullopt;
}

}  // namespace tunesmith
