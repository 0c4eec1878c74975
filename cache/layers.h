#pragma once
// The layers that lookups search in order: rows that this process could not persist, the user's file, the system files.

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cache/cache.h"
#include "cache/row.h"
#include "cache/system_file.h"
#include "cache/user_file.h"
#include "cache/warnings.h"

namespace tunesmith {

/// A row, and whether it came from a system file.
template <typename Row>
struct Found {
  Row row;
  bool shipped = false;
};

/// All state of a Cache in one process. Not thread-safe: hold `mutex`.
class Layers {
 public:
  /// `in_doubt` means that this process was forked while a thread of its parent was inside SQLite. Then SQLite is never
  /// called, because its mutexes may be locked by a thread that does not exist here, and its view of file locks is wrong.
  Layers(const CacheOptions& options, bool in_doubt);

  template <typename Row>
  using Read = std::function<Lookup<Row>(Connection&)>;
  /// Removes the damaged rows of the table that a Read accesses, e.g. sweep_records.
  using Sweep = std::vector<std::string> (*)(Connection&, bool remove);

  /// Finds the row in the first layer that has it. Removes damaged rows from the user's file.
  template <typename Row>
  std::optional<Found<Row>> find(const Read<Row>& read, Sweep sweep);
  /// Does the same for rows with code, which it does not take from files that others can write.
  template <typename Row>
  std::optional<Found<Row>> find_code(const Read<Row>& read, Sweep sweep);
  std::vector<TuningRecord> nearest(const TuningKey& key, int limit);
  std::vector<TuningRecord> older(const TuningKey& key, int limit);
  std::set<std::int64_t> n_cols_like(const TuningKey& key);
  std::vector<TuningRecord> all_records();

  /// Writes to the user's file, or to memory if that fails. `forget` removes the row that an earlier, failed call left in
  /// memory.
  void store(const UserFile::Work& write, const UserFile::Work& forget);

  /// Returns the in-memory database of this process; opens it on first use.
  Connection& memory();
  bool in_doubt() const noexcept { return in_doubt_; }
  Connection* memory_if_used() { return memory_ ? &*memory_ : nullptr; }
  UserFile* user() { return user_ ? &*user_ : nullptr; }
  std::vector<SystemFile>& system() { return system_; }

  std::mutex mutex;
  Warnings warnings;

 private:
  // Reads a layer (0: memory, 1: user, 2...: system). Returns false if the layer does not exist or failed.
  bool read_layer(std::size_t layer, const UserFile::Work& work);
  std::size_t layer_count() const { return 2 + system_.size(); }
  // Reports whether code of this layer may run; warns if not.
  bool may_run(std::size_t layer);
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

template <typename Row>
std::optional<Found<Row>> Layers::find_code(const Read<Row>& read, Sweep sweep) {
  for (std::size_t layer = 0; layer < layer_count(); ++layer) {
    auto found = find_in(layer, read, sweep);
    if (found.row && may_run(layer)) return Found<Row>{std::move(*found.row), layer >= 2};
  }
  return std::nullopt;
}

}  // namespace tunesmith
