#include "fleet/protocol/transfer.h"

#include <future>
#include <span>
#include <utility>
#include <variant>

#include "fleet/in_parallel.h"
#include "fleet/protocol/error.h"
#include "fleet/shared_values.h"
#include "tunesmith/error.h"

namespace tunesmith::fleet {
namespace {

// People wait for these commands; a hung server should still not hold them for long.
constexpr Milliseconds transfer_limit{10'000};
constexpr std::size_t batch = 128;

template <typename Work>
auto with_server(const RemoteUrl& url, const Work& work) {
  try {
    const std::unique_ptr<Client> client = Client::open(url, after(transfer_limit));
    return work(*client);
  } catch (const RemoteError& error) {
    throw Error(ErrorCode::io, url.address(), ": ", error.what());
  }
}

/// Returns the keys that start with `prefix`.
std::vector<std::string> keys_with(Client& client, const std::string& prefix) {
  std::vector<std::string> keys;
  std::string cursor = "0";
  do {
    const Reply reply = client.call({"SCAN", cursor, "MATCH", prefix + "*", "COUNT", "1000"}, after(transfer_limit));
    if (reply.elements.size() != 2) throw RemoteError(Failure::protocol, "SCAN was not answered as expected");
    cursor = reply.elements[0].text;
    for (const Reply& key : reply.elements[1].elements) keys.push_back(key.text);
  } while (cursor != "0");
  return keys;
}

void push_generation(Client& client, const SharedValues& values, Cache& cache, const PushOptions& options) {
  Generation generation;
  for (TuningRecord& record : cache.list_records()) {
    record.shipped = false;
    generation.tunings.push_back({std::move(record), {}});
  }
  for (const BinaryInfo& info : cache.list_binaries())
    if (const auto binary = cache.find_binary(info.fingerprint))
      generation.binaries[info.fingerprint] = sha256(binary->image);
  const std::string key = values.keys().generation(options.generation);
  Command command{"SET", key, values.seal_generation(generation, options.generation)};
  if (!options.replace) command.emplace_back("NX");
  if (client.call(command, after(transfer_limit)).is_nil())
    throw Error(ErrorCode::invalid_argument, "generation '", options.generation,
                "' exists; generations do not change: choose another name, or --replace it");
}

/// Asks first which binaries are there, so that they do not travel again.
void push_binaries(Client& client, const SharedValues& values, Cache& cache, Overwrite overwrite, Transferred& done) {
  const std::vector<BinaryInfo> infos = cache.list_binaries();
  for (std::size_t first = 0; first < infos.size(); first += batch) {
    const std::size_t last = std::min(first + batch, infos.size());
    std::vector<Command> commands;
    for (std::size_t i = first; i < last; ++i)
      commands.push_back({"EXPIRE", values.keys().binary(infos[i].fingerprint), values.ttl_s()});
    const std::vector<Reply> renewed = client.call_all(commands, after(transfer_limit));
    for (std::size_t i = first; i < last; ++i) {
      const bool is_there = accepted(renewed[i - first]).integer == 1;
      if (is_there && overwrite == Overwrite::unusable) {
        ++done.kept;
        continue;
      }
      const auto binary = cache.find_binary(infos[i].fingerprint);
      if (!binary) continue;  // damaged, or in a file that others can write
      ++(values.write(client, *binary, overwrite, after(transfer_limit)).is_stored ? done.binaries : done.kept);
    }
  }
}

/// Reads values in batches, so that neither side holds all of them in memory.
class Puller {
 public:
  Puller(Client& client, const SharedValues& values, Cache& cache) : client_(client), values_(values), cache_(cache) {}

  void take_tunings() {
    for (const std::string& hash : keys_with(client_, values_.keys().prefix() + "t:")) {
      const Reply all = client_.call({"HGETALL", hash}, after(transfer_limit));  // field, value, field, value, ...
      std::vector<std::variant<SharedTuning, Refusal>> opened(all.elements.size() / 2);
      in_parallel(opened.size(), [&](std::size_t i) { opened[i] = values_.open_tuning(all.elements[2 * i + 1].text); });
      for (std::size_t i = 0; i < opened.size(); ++i) {
        done_.bytes += static_cast<std::int64_t>(all.elements[2 * i + 1].text.size());
        auto* const tuning = std::get_if<SharedTuning>(&opened[i]);
        const bool is_in_place = tuning != nullptr && field(tuning->record.key) == all.elements[2 * i].text &&
                                 values_.keys().tunings(tuning->record.key) == hash;
        if (is_in_place)
          tunings_.push_back(std::move(*tuning));
        else
          ++done_.refused;
      }
      flush();
    }
  }

  void take_generation(const Generation& generation) {
    tunings_ = generation.tunings;
    flush();
    std::vector<std::string> fingerprints;
    for (const auto& [fingerprint, digest] : generation.binaries) fingerprints.push_back(fingerprint);
    take_binaries(fingerprints, &generation);
  }

  void take_binaries(const std::vector<std::string>& fingerprints, const Generation* generation) {
    if (!values_.may_load_binaries()) return;
    for (std::size_t first = 0; first < fingerprints.size(); first += batch) {
      const std::size_t last = std::min(first + batch, fingerprints.size());
      std::vector<Command> commands;
      for (std::size_t i = first; i < last; ++i) commands.push_back({"GET", values_.keys().binary(fingerprints[i])});
      take_binaries(client_.call_all(commands, after(transfer_limit)), {&fingerprints[first], last - first}, generation);
      flush();
    }
  }

  std::vector<std::string> all_fingerprints() {
    const std::string prefix = values_.keys().prefix() + "b:";
    std::vector<std::string> names = keys_with(client_, prefix);
    for (std::string& name : names) name.erase(0, prefix.size());
    return names;
  }

  /// Waits until everything is stored.
  const Transferred& done() {
    finish_storing();
    return done_;
  }

 private:
  void take_binaries(const std::vector<Reply>& replies, std::span<const std::string> fingerprints,
                     const Generation* generation) {
    std::vector<std::variant<BinaryRecord, Refusal>> opened(replies.size());
    in_parallel(replies.size(), [&](std::size_t i) {
      if (accepted(replies[i]).is_nil()) return;
      opened[i] = values_.open_binary(replies[i].text, fingerprints[i]);
      const auto* const binary = std::get_if<BinaryRecord>(&opened[i]);
      if (binary != nullptr && generation != nullptr && generation->binaries.at(fingerprints[i]) != sha256(binary->image))
        opened[i] = Refusal::swapped;
    });
    for (std::size_t i = 0; i < replies.size(); ++i) {
      if (replies[i].is_nil()) continue;  // expired
      done_.bytes += static_cast<std::int64_t>(replies[i].text.size());
      if (auto* const binary = std::get_if<BinaryRecord>(&opened[i]))
        binaries_.push_back(std::move(*binary));
      else
        ++done_.refused;
    }
  }

  void flush() {
    if (tunings_.empty() && binaries_.empty()) return;
    done_.tunings += static_cast<std::int64_t>(tunings_.size());
    done_.binaries += static_cast<std::int64_t>(binaries_.size());
    finish_storing();
    storing_ = std::async(std::launch::async,
                          [&cache = cache_, tunings = std::exchange(tunings_, {}), binaries = std::exchange(binaries_, {})] {
                            cache.import_shared(tunings, binaries);
                          });
  }
  void finish_storing() {
    if (storing_.valid()) storing_.get();
  }

  Client& client_;
  const SharedValues& values_;
  Cache& cache_;
  std::vector<SharedTuning> tunings_;
  std::vector<BinaryRecord> binaries_;
  Transferred done_;
  std::future<void> storing_;  // the last batch, while the next one is read and verified
};

}  // namespace

Transferred push(const RemoteUrl& url, Cache& cache, const PushOptions& options) {
  if (url.read_only) throw Error(ErrorCode::invalid_argument, "the URL says mode=ro; push needs mode=rw");
  const SharedValues values(url, read_credentials(url));
  if (!values.may_write_tunings())
    throw Error(ErrorCode::invalid_argument,
                "the URL has trust but no sign: nobody would use what is written without a signature");
  return with_server(url, [&](Client& client) {
    Transferred done;
    const auto overwrite = options.replace ? Overwrite::always : Overwrite::unusable;
    for (TuningRecord& record : cache.list_records()) {
      if (record.shipped) continue;
      SharedTuning tuning{record, cache.find_trials(record.key)};
      ++(values.write(client, tuning, overwrite, after(transfer_limit)).is_stored ? done.tunings : done.kept);
    }
    if (options.with_binaries && values.may_write_binaries()) push_binaries(client, values, cache, overwrite, done);
    if (!options.generation.empty()) push_generation(client, values, cache, options);
    return done;
  });
}

Transferred pull(const RemoteUrl& url, Cache& cache) {
  const SharedValues values(url, read_credentials(url));
  return with_server(url, [&](Client& client) {
    Puller puller(client, values, cache);
    if (url.generation.empty()) {
      puller.take_tunings();
      if (values.may_load_binaries()) puller.take_binaries(puller.all_fingerprints(), nullptr);
      return puller.done();
    }
    const Reply reply = client.call({"GET", values.keys().generation(url.generation)}, after(transfer_limit));
    if (reply.is_nil()) throw Error(ErrorCode::not_found, "the server has no generation '", url.generation, "'");
    const auto found = values.open_generation(reply.text, url.generation);
    if (const auto* refusal = std::get_if<Refusal>(&found))
      throw Error(ErrorCode::io, "generation '", url.generation, "' is ", name(*refusal), " and was not used");
    puller.take_generation(std::get<Generation>(found));
    return puller.done();
  });
}

}  // namespace tunesmith::fleet
