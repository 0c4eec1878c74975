#include "cache/layers.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "cache/file_system.h"
#include "cache/records.h"
#include "cache/schema.h"

namespace tunesmith {
namespace {

// Orders like |log(a / b)|; exact for powers of two.
double ratio(std::int64_t a, std::int64_t b) {
  const auto x = static_cast<double>(std::max<std::int64_t>(a, 1)), y = static_cast<double>(std::max<std::int64_t>(b, 1));
  return std::max(x, y) / std::min(x, y);
}

struct Candidate {
  TuningKey key;
  double n_cols_ratio = 1, rows_ratio = 1;
  std::size_t layer = 0;

  bool operator<(const Candidate& other) const {
    return std::tie(n_cols_ratio, rows_ratio, layer, key.n_cols, key.rows_bucket) <
           std::tie(other.n_cols_ratio, other.rows_ratio, other.layer, other.key.n_cols, other.key.rows_bucket);
  }
};

}  // namespace

Layers::Layers(const CacheOptions& options, bool in_doubt) : in_doubt_(in_doubt) {
  if (in_doubt) {
    warnings.once("fork", "this process was forked while its parent used the cache " + options.file.string() +
                              "; it continues without the cache");
    return;
  }
  if (!options.file.empty()) user_.emplace(options.file, options.busy_timeout_ms, warnings);
  for (const auto& file : options.system_files) system_.emplace_back(file, warnings);
}

Connection& Layers::memory() {
  if (!memory_) {
    Connection connection = Connection::open_memory();
    connection.execute("PRAGMA foreign_keys=ON");
    migrate(connection);
    memory_.emplace(std::move(connection));
  }
  return *memory_;
}

bool Layers::read_layer(std::size_t layer, const UserFile::Work& work) {
  if (layer == 1) return user_ && user_->read(work) == UserFile::Outcome::done;
  if (layer >= 2) return system_[layer - 2].read(work);
  if (!memory_) return false;
  try {
    work(*memory_);
    return true;
  } catch (const SqliteError&) {  // out of memory
    return false;
  }
}

bool Layers::may_run(std::size_t layer) {
  if (layer == 0) return true;
  const std::filesystem::path& file = layer == 1 ? user_->path() : system_[layer - 2].path();
  const std::string why = why_not_private(file);
  if (why.empty()) return true;
  warnings.once("not private " + file.string(), "binaries of cache " + file.string() + " are not loaded: " + why);
  return false;
}

void Layers::store(const UserFile::Work& write, const UserFile::Work& forget) {
  if (in_doubt_) return;
  const bool kept = user_ && user_->write(write) == UserFile::Outcome::done;
  if (kept && !memory_) return;
  try {
    Transaction transaction(memory());
    (kept ? forget : write)(*memory_);
    transaction.commit();
  } catch (const SqliteError& error) {
    warnings.once("memory", std::string("a result could not be kept in memory: ") + error.what());
  }
}

std::vector<TuningRecord> Layers::nearest(const TuningKey& key, int limit) {
  std::vector<Candidate> candidates;
  for (std::size_t layer = 0; layer < layer_count(); ++layer) {
    std::vector<TuningKey> keys;
    if (!read_layer(layer, [&](Connection& connection) { keys = keys_like(connection, key); })) continue;
    for (TuningKey& found : keys) {
      const double n_cols_ratio = ratio(found.n_cols, key.n_cols), rows_ratio = ratio(found.rows_bucket, key.rows_bucket);
      candidates.push_back({std::move(found), n_cols_ratio, rows_ratio, layer});
    }
  }
  std::sort(candidates.begin(), candidates.end());

  std::vector<TuningRecord> records;
  std::set<std::pair<std::int64_t, std::int64_t>> taken;  // if several layers have a key, the first wins
  for (const Candidate& candidate : candidates) {
    if (static_cast<std::int64_t>(records.size()) >= limit) break;
    if (taken.contains({candidate.key.n_cols, candidate.key.rows_bucket})) continue;
    const Read<TuningRecord> read = [&](Connection& connection) { return read_record(connection, candidate.key); };
    auto found = find_in(candidate.layer, read, sweep_records);
    if (!found.row) continue;
    taken.insert({candidate.key.n_cols, candidate.key.rows_bucket});
    found.row->shipped = candidate.layer >= 2;
    records.push_back(std::move(*found.row));
  }
  return records;
}

std::vector<TuningRecord> Layers::older(const TuningKey& key, int limit) {
  struct Older {
    TuningKey key;
    std::int64_t created_unix_s;
    std::size_t layer;
  };
  std::vector<Older> candidates;
  for (std::size_t layer = 0; layer < layer_count(); ++layer)
    read_layer(layer, [&](Connection& connection) {
      for (auto& [found, created_unix_s] : keys_of_other_templates(connection, key))
        candidates.push_back({std::move(found), created_unix_s, layer});
    });
  // If several layers have a record, the first wins.
  std::ranges::stable_sort(candidates, std::ranges::greater(), &Older::created_unix_s);

  std::vector<TuningRecord> records;
  for (const Older& candidate : candidates) {
    if (static_cast<std::int64_t>(records.size()) >= limit) break;
    if (std::ranges::any_of(records, [&](const TuningRecord& record) { return record.key == candidate.key; })) continue;
    const Read<TuningRecord> read = [&](Connection& connection) { return read_record(connection, candidate.key); };
    auto found = find_in(candidate.layer, read, sweep_records);
    if (!found.row) continue;
    found.row->shipped = candidate.layer >= 2;
    records.push_back(std::move(*found.row));
  }
  return records;
}

std::set<std::int64_t> Layers::n_cols_like(const TuningKey& key) {
  std::set<std::int64_t> all;
  for (std::size_t layer = 0; layer < layer_count(); ++layer)
    read_layer(layer, [&](Connection& connection) { all.merge(tunesmith::n_cols_like(connection, key)); });
  return all;
}

std::vector<TuningRecord> Layers::all_records() {
  std::map<TuningKey, TuningRecord> records;
  for (std::size_t layer = 0; layer < layer_count(); ++layer) {
    read_layer(layer, [&](Connection& connection) {
      for_each_record(connection, [&](TuningRecord&& record, bool healthy) {
        if (!healthy) return;
        record.shipped = layer >= 2;
        const TuningKey key = record.key;
        records.emplace(key, std::move(record));
      });
    });
  }
  std::vector<TuningRecord> list;
  for (auto& [key, record] : records) list.push_back(std::move(record));
  return list;
}

}  // namespace tunesmith
