#include "fleet/shared_values.h"

#include <chrono>

#include "fleet/protocol/error.h"
#include "tunesmith/error.h"

namespace tunesmith::fleet {
namespace {

// Replaces a value unless another host has replaced it since it was read.
const std::string replace_field =
    "if redis.call('HGET',KEYS[1],ARGV[1])==ARGV[2] then redis.call('HSET',KEYS[1],ARGV[1],ARGV[3]) return 1 end return 0";
const std::string replace_value =
    "if redis.call('GET',KEYS[1])==ARGV[1] then redis.call('SET',KEYS[1],ARGV[2],'EX',ARGV[3]) return 1 end return 0";

template <typename Row>
std::variant<Row, Refusal> opened(const std::variant<Value, Refusal>& value,
                                  std::optional<Row> (*decode)(std::string_view)) {
  if (const auto* refusal = std::get_if<Refusal>(&value)) return *refusal;
  std::optional<Row> row = decode(std::get<Value>(value).payload);
  if (!row) return Refusal::damaged;
  return std::move(*row);
}

/// The key that a value says it has; empty if it is no value.
std::string claimed_key(std::string_view bytes) {
  constexpr std::size_t before_name_space = 6, most = 1 << 16;
  if (bytes.size() < before_name_space) return {};
  std::string_view rest = bytes.substr(before_name_space);
  const auto take = [&]() -> std::string_view {
    if (rest.size() < 4) return {};
    std::size_t size = 0;
    for (std::size_t i = 0; i < 4; ++i) size |= std::size_t{static_cast<unsigned char>(rest[i])} << (8 * i);
    if (size > most || rest.size() - 4 < size) return {};
    const std::string_view text = rest.substr(4, size);
    rest.remove_prefix(4 + size);
    return text;
  };
  take();
  return std::string(take());
}

}  // namespace

SharedValues::SharedValues(const RemoteUrl& url, Credentials credentials)
    : name_space_(url.name_space), ttl_days_(url.ttl_days), keys_(url.name_space), credentials_(std::move(credentials)) {}

std::variant<SharedTuning, Refusal> SharedValues::open_tuning(std::string_view bytes, const TuningKey& key) const {
  auto found = opened(unseal(bytes, label(Kind::tuning, key_bytes(key)), credentials_.trust), decode_tuning);
  if (const auto* tuning = std::get_if<SharedTuning>(&found); tuning != nullptr && tuning->record.key != key)
    return Refusal::swapped;
  return found;
}

std::variant<SharedTuning, Refusal> SharedValues::open_tuning(std::string_view bytes) const {
  const std::string key = claimed_key(bytes);
  auto found = opened(unseal(bytes, label(Kind::tuning, key), credentials_.trust), decode_tuning);
  if (const auto* tuning = std::get_if<SharedTuning>(&found); tuning != nullptr && key_bytes(tuning->record.key) != key)
    return Refusal::swapped;
  return found;
}

std::variant<BinaryRecord, Refusal> SharedValues::open_binary(std::string_view bytes, const std::string& fingerprint) const {
  if (!may_load_binaries()) return Refusal::untrusted;
  auto found = opened(unseal(bytes, label(Kind::binary, fingerprint), credentials_.trust), decode_binary);
  if (const auto* binary = std::get_if<BinaryRecord>(&found); binary != nullptr && binary->fingerprint != fingerprint)
    return Refusal::swapped;
  return found;
}

std::variant<Generation, Refusal> SharedValues::open_generation(std::string_view bytes, const std::string& name) const {
  if (!credentials_.trust.required()) return Refusal::untrusted;
  return opened(unseal(bytes, label(Kind::generation, name), credentials_.trust), decode_generation);
}

std::string SharedValues::seal_tuning(const SharedTuning& tuning) const {
  return seal(label(Kind::tuning, key_bytes(tuning.record.key)), encode(tuning), unix_seconds(), credentials_.signing_key());
}

std::string SharedValues::seal_generation(const Generation& generation, const std::string& name) const {
  if (!credentials_.signing)
    throw Error(ErrorCode::invalid_argument,
                "a generation must be signed; add sign=FILE to the URL (`tunesmith cache keys new`)");
  return seal(label(Kind::generation, name), encode(generation), unix_seconds(), credentials_.signing_key());
}

void SharedValues::renew(Client& client, const std::string& server_key, Deadline deadline) const {
  client.call({"EXPIRE", server_key, ttl_s()}, deadline);
}

Written<SharedTuning> SharedValues::write(Client& client, const SharedTuning& tuning, Overwrite overwrite,
                                          Deadline deadline) const {
  const TuningKey& key = tuning.record.key;
  const std::string hash = keys_.tunings(key), name = field(key), sealed = seal_tuning(tuning);
  if (overwrite == Overwrite::always) {
    client.call({"HSET", hash, name, sealed}, deadline);
    renew(client, hash, deadline);
    return {true, std::nullopt};
  }
  const bool is_first = client.call({"HSETNX", hash, name, sealed}, deadline).integer == 1;
  renew(client, hash, deadline);
  if (is_first) return {true, std::nullopt};
  const Reply present = client.call({"HGET", hash, name}, deadline);
  auto found = open_tuning(present.text, key);
  if (auto* winner = std::get_if<SharedTuning>(&found)) return {false, std::move(*winner)};
  const Reply replaced = client.evaluate(replace_field, {hash}, {name, present.text, sealed}, deadline);
  return {replaced.integer == 1, std::nullopt};
}

Written<BinaryRecord> SharedValues::write(Client& client, const BinaryRecord& binary, Overwrite overwrite,
                                          Deadline deadline) const {
  const std::string key = keys_.binary(binary.fingerprint);
  const std::string sealed =
      seal(label(Kind::binary, binary.fingerprint), encode(binary), unix_seconds(), credentials_.signing_key());
  if (overwrite == Overwrite::always) {
    client.call({"SET", key, sealed, "EX", ttl_s()}, deadline);
    return {true, std::nullopt};
  }
  if (!client.call({"SET", key, sealed, "EX", ttl_s(), "NX"}, deadline).is_nil()) return {true, std::nullopt};
  renew(client, key, deadline);
  const Reply present = client.call({"GET", key}, deadline);
  auto found = open_binary(present.text, binary.fingerprint);
  if (auto* winner = std::get_if<BinaryRecord>(&found)) return {false, std::move(*winner)};
  const Reply replaced = client.evaluate(replace_value, {key}, {present.text, sealed, ttl_s()}, deadline);
  return {replaced.integer == 1, std::nullopt};
}

}  // namespace tunesmith::fleet
