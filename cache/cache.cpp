#include "cache/cache.h"

#include <chrono>

#include "cache/binaries.h"
#include "cache/file_system.h"
#include "cache/impl.h"
#include "cache/records.h"
#include "cache/remote_store.h"

namespace tunesmith {
namespace {

std::int64_t unix_seconds() {
  namespace chrono = std::chrono;
  return chrono::duration_cast<chrono::seconds>(chrono::system_clock::now().time_since_epoch()).count();
}

template <typename Row>
std::optional<Row> row_of(std::optional<Found<Row>> found) {
  if (!found) return std::nullopt;
  return std::move(found->row);
}

}  // namespace

Cache::Impl::Impl(CacheOptions given) : options(std::move(given)), state_(new State(options, false)) {}

Cache::Impl::~Impl() {
  State* last = state_.load();
  if (last->process == getpid()) delete last;
}

Cache::Impl::State& Cache::Impl::state() {
  State* current = state_.load(std::memory_order_acquire);
  if (current->process == getpid()) return *current;
  auto* fresh = new State(options, current->inside.load() != 0);
  if (state_.compare_exchange_strong(current, fresh)) return *fresh;
  delete fresh;
  return *current;
}

void Cache::Impl::deliver(const std::vector<std::string>& warnings) const {
  if (!options.warn) return;
  for (const std::string& warning : warnings) {
    try {
      options.warn(warning);
    } catch (...) {  // a failing callback must not make a lookup fail
    }
  }
}

Cache* Cache::Impl::pinned() const { return options.remote ? options.remote->pinned() : nullptr; }

Cache::Cache(CacheOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {
  if (impl_->options.remote)
    impl_->options.remote->on_adopted([impl = impl_.get()](const SharedTuning& tuning) { impl->keep(tuning); });
}

Cache::~Cache() {
  if (impl_->options.remote) impl_->options.remote->on_adopted({});
}

void Cache::Impl::keep(const SharedTuning& tuning) {
  enter([&](Layers& layers) {
    layers.store([&](Connection& connection) { write_record(connection, tuning.record, tuning.trials); },
                 [&](Connection& connection) { erase_record(connection, tuning.record.key); });
  });
}

void Cache::Impl::keep(const BinaryRecord& binary, const std::string* source) {
  enter([&](Layers& layers) {
    const StoredBinary stored{binary, unix_seconds()};
    layers.store(
        [&](Connection& connection) {
          write_binary(connection, stored);
          if (source != nullptr) write_source(connection, binary.source_hash, *source);
        },
        [&](Connection& connection) { erase_binary(connection, binary.fingerprint); });
  });
}

std::optional<TuningRecord> Cache::find_record(const TuningKey& key) {
  if (Cache* const pinned = impl_->pinned()) return pinned->find_record(key);
  std::optional<TuningRecord> found = impl_->local_record(key);
  if (found || !impl_->options.remote) return found;
  // Neighbours are kept, too: find_nearest() finds them.
  for (const SharedTuning& tuning : impl_->options.remote->find_tunings(key)) {
    if (tuning.record.key == key) found = tuning.record;
    if (!impl_->local_record(tuning.record.key)) impl_->keep(tuning);
  }
  return found;
}

std::optional<TuningRecord> Cache::Impl::local_record(const TuningKey& key) {
  return enter([&](Layers& layers) -> std::optional<TuningRecord> {
    auto found =
        layers.find<TuningRecord>([&](Connection& connection) { return read_record(connection, key); }, sweep_records);
    if (!found) return std::nullopt;
    found->row.shipped = found->shipped;
    return std::move(found->row);
  });
}

std::vector<TuningRecord> Cache::find_nearest(const TuningKey& key, int limit) {
  if (Cache* const pinned = impl_->pinned()) return pinned->find_nearest(key, limit);
  return impl_->enter([&](Layers& layers) { return layers.nearest(key, limit); });
}

std::vector<TuningRecord> Cache::find_older(const TuningKey& key, int limit) {
  if (Cache* const pinned = impl_->pinned()) return pinned->find_older(key, limit);
  return impl_->enter([&](Layers& layers) { return layers.older(key, limit); });
}

std::set<std::int64_t> Cache::find_n_cols(const TuningKey& key) {
  if (Cache* const pinned = impl_->pinned()) return pinned->find_n_cols(key);
  std::set<std::int64_t> all = impl_->enter([&](Layers& layers) { return layers.n_cols_like(key); });
  if (impl_->options.remote) all.merge(impl_->options.remote->find_n_cols(key));
  return all;
}

std::vector<Trial> Cache::find_trials(const TuningKey& key) {
  return impl_->enter([&](Layers& layers) {
    const auto read = [&](Connection& connection) {
      auto found = read_trials(connection, key);
      if (found.row && found.row->empty()) found.row.reset();  // continue with the next layer
      return found;
    };
    return row_of(layers.find<std::vector<Trial>>(read, sweep_records)).value_or(std::vector<Trial>());
  });
}

void Cache::store_record(const TuningRecord& record, const std::vector<Trial>& trials) {
  const SharedTuning tuning{record, trials};
  impl_->keep(tuning);
  if (impl_->options.remote) impl_->options.remote->publish(tuning);
}

std::optional<BinaryRecord> Cache::find_binary(const std::string& fingerprint) {
  RemoteStore* const remote = impl_->options.remote.get();
  std::optional<BinaryRecord> found = impl_->local_binary(fingerprint);
  if (found && remote != nullptr && !remote->accepts(*found)) found.reset();
  if (found || remote == nullptr) return found;
  found = remote->find_binary(fingerprint);
  if (found) impl_->keep(*found, nullptr);
  return found;
}

std::optional<BinaryRecord> Cache::Impl::local_binary(const std::string& fingerprint) {
  return enter([&](Layers& layers) -> std::optional<BinaryRecord> {
    auto found = layers.find_code<StoredBinary>([&](Connection& connection) { return read_binary(connection, fingerprint); },
                                                sweep_binaries);
    if (!found) return std::nullopt;
    return std::move(found->row.binary);
  });
}

std::optional<BinaryRecord> Cache::find_binary_of_source(const std::string& source_key, const std::string& arch) {
  return impl_->enter([&](Layers& layers) -> std::optional<BinaryRecord> {
    const auto read = [&](Connection& connection) { return read_binary_of_source(connection, source_key, arch); };
    auto found = layers.find_code<StoredBinary>(read, sweep_binaries);
    if (!found) return std::nullopt;
    return std::move(found->row.binary);
  });
}

void Cache::store_binary(const BinaryRecord& binary, const std::string& source) {
  impl_->keep(binary, &source);
  if (impl_->options.remote) impl_->options.remote->publish(binary);
}

std::optional<std::string> Cache::find_source(const std::string& source_hash) {
  return impl_->enter([&](Layers& layers) {
    return row_of(layers.find<std::string>([&](Connection& connection) { return read_source(connection, source_hash); },
                                           sweep_binaries));
  });
}

std::optional<WorkClaim> Cache::claim(std::string_view key, std::chrono::milliseconds wait) const {
  const std::filesystem::path& file = impl_->options.file;
  const std::optional<FileIdentity> found = file_identity(file);
  if (!file.empty() && (!found || found->regular)) {  // a device such as /dev/null gets no lock file
    std::optional<WorkClaim> claim = WorkClaim::take(resolved(file) += ".work.lock", key, wait);
    if (!claim || !claim->claims_nothing()) return claim;
  }
  std::shared_ptr<const void> claim = impl_->thread_claims().take(key, wait);
  if (claim == nullptr) return std::nullopt;
  return WorkClaim(std::move(claim));
}

bool Cache::is_pinned() const { return impl_->pinned() != nullptr; }

Cache::HostClaim Cache::claim_host(const TuningKey& key, double limit_s) const {
  HostClaim claim;
  if (!impl_->options.remote) return claim;
  RemoteStore::LeaseAnswer answer = impl_->options.remote->lease(key, limit_s);
  claim.is_elsewhere = answer.is_elsewhere;
  claim.lease = std::move(answer.lease);
  return claim;
}

std::vector<TuningRecord> Cache::list_records() {
  return impl_->enter([&](Layers& layers) { return layers.all_records(); });
}

}  // namespace tunesmith
