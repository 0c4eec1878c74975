#include "fleet/protocol/value.h"

#include <algorithm>
#include <chrono>

#include "fleet/protocol/bytes.h"
#include "fleet/protocol/compression.h"
#include "tunesmith/error.h"

namespace tunesmith::fleet {
namespace {

constexpr std::string_view magic = "TSFV";
constexpr std::uint64_t version = 1;
constexpr std::size_t max_key_bytes = 1 << 16;
// A signature of a value never serves as one of something else.
constexpr std::string_view signed_as = "tunesmith fleet value 1";

// layout: magic, version, kind, namespace, key, time, signer, payload bytes, compressed payload, SHA-256 of all before,
// signature of the digest (if there is a signer)
struct Parts {
  std::uint64_t version = 0, kind = 0, created_unix_s = 0, payload_bytes = 0;
  std::string_view name_space, key, signer, packed, digest, signature;
};

std::optional<Parts> split(std::string_view bytes) {
  ByteReader reader(bytes);
  if (bytes.size() > max_value_bytes || reader.raw(magic.size()) != magic) return std::nullopt;
  Parts parts;
  parts.version = reader.integer(1);
  parts.kind = reader.integer(1);
  parts.name_space = reader.text(256);
  parts.key = reader.text(max_key_bytes);
  parts.created_unix_s = reader.integer();
  parts.signer = reader.text(public_key_bytes);
  parts.payload_bytes = reader.integer();
  parts.packed = reader.text(max_value_bytes);
  parts.digest = reader.raw(digest_bytes);
  if (!parts.signer.empty()) parts.signature = reader.raw(signature_bytes);
  if (!reader.is_done() || parts.version != version || parts.payload_bytes > max_payload_bytes) return std::nullopt;
  return parts;
}

std::string to_sign(std::string_view digest) { return std::string(signed_as).append(digest); }

}  // namespace

std::string_view name(Refusal refusal) noexcept {
  switch (refusal) {
    case Refusal::damaged: return "damaged";
    case Refusal::swapped: return "swapped";
    case Refusal::untrusted: return "untrusted";
  }
  return "";
}

std::int64_t unix_seconds() {
  namespace chrono = std::chrono;
  return chrono::duration_cast<chrono::seconds>(chrono::system_clock::now().time_since_epoch()).count();
}

std::string seal(const Label& label, std::string_view payload, std::int64_t created_unix_s, const SigningKey* key) {
  if (payload.size() > max_payload_bytes)
    throw Error(ErrorCode::invalid_argument, "a value has ", payload.size(), " bytes; allowed: at most ", max_payload_bytes);
  ByteWriter writer;
  writer.add_raw(magic).add(version, 1).add(static_cast<std::uint64_t>(label.kind), 1);
  writer.add(label.name_space).add(label.key).add(static_cast<std::uint64_t>(created_unix_s));
  writer.add(std::string_view(key != nullptr ? key->public_key() : ""));
  writer.add(std::uint64_t{payload.size()}).add(compress(payload));
  const std::string digest = sha256(writer.bytes());
  writer.add_raw(digest);
  if (key != nullptr) writer.add_raw(key->sign(to_sign(digest)));
  if (writer.bytes().size() > max_value_bytes)
    throw Error(ErrorCode::invalid_argument, "a compressed value has ", writer.bytes().size(), " bytes; allowed: at most ",
                max_value_bytes);
  return std::move(writer).bytes();
}

std::variant<Value, Refusal> unseal(std::string_view bytes, const Label& label, const Trust& trust) {
  const std::optional<Parts> parts = split(bytes);
  if (!parts) return Refusal::damaged;
  const std::size_t tail = digest_bytes + parts->signature.size();
  if (sha256(bytes.substr(0, bytes.size() - tail)) != parts->digest) return Refusal::damaged;
  if (parts->kind != static_cast<std::uint64_t>(label.kind) || parts->name_space != label.name_space ||
      parts->key != label.key)
    return Refusal::swapped;
  if (trust.required()) {
    const bool is_known = std::ranges::find(trust.public_keys, parts->signer) != trust.public_keys.end();
    if (!is_known || !is_signed(to_sign(parts->digest), parts->signature, parts->signer)) return Refusal::untrusted;
  }
  std::optional<std::string> payload = decompress(parts->packed, parts->payload_bytes);
  if (!payload) return Refusal::damaged;
  return Value{std::move(*payload), static_cast<std::int64_t>(parts->created_unix_s), std::string(parts->signer)};
}

}  // namespace tunesmith::fleet
