#include "fleet/remote_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "core/hash.h"
#include "fleet/lease.h"
#include "fleet/misses.h"
#include "fleet/pinned_generation.h"
#include "fleet/protocol/error.h"
#include "fleet/protocol/read_connection.h"
#include "fleet/shared_values.h"
#include "fleet/writer.h"

namespace tunesmith::fleet {
namespace {

/// Records of other n_cols that are taken along when the exact one is missing, at most this many and this far away.
constexpr std::size_t max_neighbours = 4;
constexpr double neighbour_factor = 4;

double distance(std::int64_t a, std::int64_t b) {
  return std::fabs(
      std::log(static_cast<double>(std::max<std::int64_t>(a, 1)) / static_cast<double>(std::max<std::int64_t>(b, 1))));
}

/// Returns the fields of the nearest records, nearest first.
std::vector<std::string> nearest_fields(const std::vector<Reply>& fields, const TuningKey& key) {
  std::vector<std::pair<std::pair<double, double>, std::string>> found;
  for (const Reply& reply : fields) {
    const std::optional<FieldNumbers> numbers = parse_field(reply.text);
    if (!numbers || distance(numbers->n_cols, key.n_cols) > std::log(neighbour_factor) + 1e-9) continue;
    found.push_back({{distance(numbers->n_cols, key.n_cols), distance(numbers->rows_bucket, key.rows_bucket)}, reply.text});
  }
  std::ranges::sort(found);
  std::vector<std::string> nearest;
  for (std::size_t i = 0; i < std::min(found.size(), max_neighbours); ++i) nearest.push_back(std::move(found[i].second));
  return nearest;
}

std::string labelled(const char* name, const char* label, std::string_view value) {
  return std::string(name) + "{" + label + "=\"" + std::string(value) + "\"}";
}

}  // namespace

struct RemoteCache::State {
  State(const RemoteUrl& remote, const Credentials& credentials, const RemoteOptions& given);

  void warn_once(const std::string& why);
  /// Counts and reports a value that is not used.
  void refuse(Refusal refusal, const std::string& what);
  void count(const char* name, std::string_view kind) { counters.add(labelled(name, "kind", kind)); }
  /// Renews a value that was used, so that it does not expire.
  void renew(std::string server_key);

  const pid_t process = getpid();
  const RemoteUrl& url;
  const RemoteOptions& options;
  std::atomic<bool> warned{false};
  Counters counters;
  const SharedValues values;
  Misses misses;
  std::mutex adopt_mutex;
  std::function<void(const SharedTuning&)> adopt;
  ReadConnection reader;
  std::optional<PinnedGeneration> generation;
  Writer writer;  // the last one, since its jobs use the others
};

RemoteCache::State::State(const RemoteUrl& remote, const Credentials& credentials, const RemoteOptions& given)
    : url(remote),
      options(given),
      values(remote, credentials),
      reader(remote, counters, [this](const std::string& why) { warn_once(why); }),
      writer(
          remote, counters, [this](const std::string& why) { warn_once(why); },
          [this](const Counts& counts) {
            if (!options.cache_file.empty()) add_to_file(counters_file(options.cache_file), counts);
          }) {
  if (url.generation.empty()) return;
  const std::filesystem::path copy =
      options.cache_file.empty() ? "" : generation_file(options.cache_file, url.name_space, url.generation);
  generation.emplace(url.generation, url.binary, copy, values, [this](const std::string& why) { warn_once(why); });
}

void RemoteCache::State::warn_once(const std::string& why) {
  if (warned.exchange(true) || !options.warn) return;
  try {
    options.warn("the remote cache does not work: " + why +
                 "; this host continues without it (said once; `tunesmith doctor --remote` checks it)");
  } catch (...) {  // a failing callback must not make a lookup fail
  }
}

void RemoteCache::State::refuse(Refusal refusal, const std::string& what) {
  counters.add(labelled("refused_total", "why", name(refusal)));
  warn_once("a value of " + what + " is " + std::string(name(refusal)) + " and was not used");
}

void RemoteCache::State::renew(std::string server_key) {
  if (url.read_only) return;
  writer.add([this, server_key = std::move(server_key)](Client& client,
                                                        Deadline deadline) { values.renew(client, server_key, deadline); },
             128);
}

RemoteCache::RemoteCache(RemoteUrl url, Credentials credentials, RemoteOptions options)
    : url_(std::move(url)),
      credentials_(std::move(credentials)),
      options_(std::move(options)),
      state_(new State(url_, credentials_, options_)) {}

RemoteCache::~RemoteCache() {
  State* const last = state_.load();
  if (last->process == getpid()) delete last;
}

RemoteCache::State& RemoteCache::state() {
  State* current = state_.load(std::memory_order_acquire);
  if (current->process == getpid()) return *current;
  auto* fresh = new State(url_, credentials_, options_);
  if (state_.compare_exchange_strong(current, fresh)) return *fresh;
  delete fresh;
  return *current;
}

std::vector<SharedTuning> RemoteCache::find_tunings(const TuningKey& key) {
  State& now = state();
  const std::string miss = "t" + key_bytes(key);
  if (now.generation || now.misses.contains(miss)) return {};
  const std::string hash = now.values.keys().tunings(key);
  std::vector<std::pair<TuningKey, std::string>> found;
  bool is_exact = false;
  const bool is_answered = now.reader.ask(url_.record, [&](Client& client, Deadline deadline) {
    const std::vector<Reply> replies = client.call_all({{"HGET", hash, field(key)}, {"HKEYS", hash}}, deadline);
    is_exact = !accepted(replies[0]).is_nil();
    if (is_exact) {
      found.emplace_back(key, replies[0].text);
      return;
    }
    const std::vector<std::string> nearest = nearest_fields(accepted(replies[1]).elements, key);
    if (nearest.empty()) return;
    Command command{"HMGET", hash};
    command.insert(command.end(), nearest.begin(), nearest.end());
    const Reply values = client.call(command, deadline);
    for (std::size_t i = 0; i < std::min(nearest.size(), values.elements.size()); ++i) {
      TuningKey neighbour = key;
      const FieldNumbers numbers = *parse_field(nearest[i]);
      neighbour.n_cols = numbers.n_cols;
      neighbour.rows_bucket = numbers.rows_bucket;
      if (!values.elements[i].is_nil()) found.emplace_back(std::move(neighbour), values.elements[i].text);
    }
  });
  if (!is_answered) return {};

  std::vector<SharedTuning> tunings;
  for (const auto& [found_key, bytes] : found) {
    now.counters.add("received_bytes_total", bytes.size());
    auto opened = now.values.open_tuning(bytes, found_key);
    if (auto* tuning = std::get_if<SharedTuning>(&opened))
      tunings.push_back(std::move(*tuning));
    else
      now.refuse(std::get<Refusal>(opened), "a " + found_key.op + " tuning");
  }
  const bool is_hit = is_exact && !tunings.empty();
  now.count(is_hit ? "hits_total" : "misses_total", "record");
  if (is_hit)
    now.renew(hash);
  else
    now.misses.add(miss);
  return tunings;
}

std::set<std::int64_t> RemoteCache::find_n_cols(const TuningKey& key) {
  State& now = state();
  std::set<std::int64_t> all;
  if (now.generation) return all;
  Reply fields;
  now.reader.ask(url_.record, [&](Client& client, Deadline deadline) {
    fields = client.call({"HKEYS", now.values.keys().tunings(key)}, deadline);
  });
  for (const Reply& reply : fields.elements)
    if (const std::optional<FieldNumbers> numbers = parse_field(reply.text)) all.insert(numbers->n_cols);
  return all;
}

std::optional<BinaryRecord> RemoteCache::find_binary(const std::string& fingerprint) {
  State& now = state();
  const std::string miss = "b" + fingerprint;
  if (!now.values.may_load_binaries() || now.misses.contains(miss)) return std::nullopt;
  if (now.generation) {
    const PinnedGeneration::Contents* const contents = now.generation->get(now.reader);
    if (contents == nullptr || !contents->binaries.contains(fingerprint)) return std::nullopt;
  }
  const std::string key = now.values.keys().binary(fingerprint);
  Reply reply;
  if (!now.reader.ask(url_.binary, [&](Client& client, Deadline deadline) { reply = client.call({"GET", key}, deadline); }))
    return std::nullopt;
  std::optional<BinaryRecord> binary;
  if (!reply.is_nil()) {
    now.counters.add("received_bytes_total", reply.text.size());
    auto opened = now.values.open_binary(reply.text, fingerprint);
    if (auto* found = std::get_if<BinaryRecord>(&opened); found != nullptr && accepts(*found))
      binary = std::move(*found);
    else
      now.refuse(found != nullptr ? Refusal::swapped : std::get<Refusal>(opened), "a binary");
  }
  now.count(binary ? "hits_total" : "misses_total", "binary");
  if (binary)
    now.renew(key);
  else
    now.misses.add(miss);
  return binary;
}

void RemoteCache::publish(SharedTuning tuning) {
  State& now = state();
  if (url_.read_only || !now.values.may_write_tunings()) return;
  now.misses.erase("t" + key_bytes(tuning.record.key));
  const std::size_t bytes = encode(tuning).size();
  now.writer.add(
      [&now, tuning = std::move(tuning)](Client& client, Deadline deadline) {
        const Written<SharedTuning> written = now.values.write(client, tuning, Overwrite::unusable, deadline);
        now.counters.add(written.is_stored ? "published_total{kind=\"record\"}" : "outrun_total{kind=\"record\"}");
        if (!written.present) return;
        const std::lock_guard lock(now.adopt_mutex);
        if (now.adopt) now.adopt(*written.present);
      },
      bytes);
}

void RemoteCache::publish(const BinaryRecord& binary) {
  State& now = state();
  if (url_.read_only || !now.values.may_write_binaries()) return;
  now.misses.erase("b" + binary.fingerprint);
  now.writer.add(
      [&now, binary](Client& client, Deadline deadline) {
        const bool is_stored = now.values.write(client, binary, Overwrite::unusable, deadline).is_stored;
        now.counters.add(is_stored ? "published_total{kind=\"binary\"}" : "outrun_total{kind=\"binary\"}");
      },
      binary.image.size() + binary.log.size());
}

void RemoteCache::on_adopted(std::function<void(const SharedTuning&)> adopt) {
  State& now = state();
  const std::lock_guard lock(now.adopt_mutex);
  now.adopt = std::move(adopt);
}

Cache* RemoteCache::pinned() {
  State& now = state();
  if (!now.generation) return nullptr;
  const PinnedGeneration::Contents* const contents = now.generation->get(now.reader);
  return contents == nullptr ? nullptr : contents->tunings.get();
}

bool RemoteCache::accepts(const BinaryRecord& binary) {
  State& now = state();
  if (!now.generation) return true;
  const PinnedGeneration::Contents* const contents = now.generation->get(now.reader);
  if (contents == nullptr) return true;
  const auto listed = contents->binaries.find(binary.fingerprint);
  return listed == contents->binaries.end() || listed->second == sha256(binary.image);
}

RemoteStore::LeaseAnswer RemoteCache::lease(const TuningKey& key, double limit_s) {
  State& now = state();
  if (url_.read_only) return {};
  const std::string name = now.values.keys().lease(key), token = new_token();
  bool is_ours = false;
  const bool is_answered = now.reader.ask(
      url_.record, [&](Client& client, Deadline deadline) { is_ours = take_lease(client, name, token, deadline); });
  if (!is_answered) return {};
  now.counters.add(is_ours ? "leases_total{result=\"taken\"}" : "leases_total{result=\"elsewhere\"}");
  // The record may have been published since it was last looked up, or will be soon.
  now.misses.erase("t" + key_bytes(key));
  if (!is_ours) return {true, nullptr};
  return {false, std::make_unique<RenewedLease>(now.writer, name, token, limit_s)};
}

bool RemoteCache::flush(std::chrono::milliseconds limit) { return state().writer.flush(limit); }

}  // namespace tunesmith::fleet
