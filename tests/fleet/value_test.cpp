// Values: what is written is read, and nothing else is.

#include "fleet/protocol/value.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "fleet/protocol/bytes.h"
#include "fleet/protocol/compression.h"
#include "fleet/protocol/tuning_codec.h"
#include "tests/fleet/samples.h"
#include "tunesmith/error.h"

namespace tunesmith::fleet {
namespace {

const Label label{Kind::binary, "prod", "fingerprint-1"};

TEST(Value, RoundTripsWithAndWithoutASignature) {
  const SigningKey key = SigningKey::generate();
  const std::string payload(100'000, 'x');
  for (const SigningKey* signer : {static_cast<const SigningKey*>(nullptr), &key}) {
    const std::string sealed = seal(label, payload, 1700000000, signer);
    EXPECT_LT(sealed.size(), 2000);
    const auto opened = unseal(sealed, label, Trust{});
    ASSERT_TRUE(std::holds_alternative<Value>(opened));
    EXPECT_EQ(std::get<Value>(opened).payload, payload);
    EXPECT_EQ(std::get<Value>(opened).created_unix_s, 1700000000);
    EXPECT_EQ(std::get<Value>(opened).signer, signer != nullptr ? key.public_key() : "");
  }
}

Refusal refusal(const std::string& bytes, const Label& wanted, const Trust& trust) {
  const auto opened = unseal(bytes, wanted, trust);
  const auto* refused = std::get_if<Refusal>(&opened);
  EXPECT_NE(refused, nullptr);
  return refused == nullptr ? Refusal{} : *refused;
}

TEST(Value, IsRefusedUnderAnotherLabelOrSigner) {
  const SigningKey ours = SigningKey::generate(), theirs = SigningKey::generate();
  const Trust trust{{ours.public_key()}};
  const std::string good = seal(label, "payload", 1, &ours);
  EXPECT_TRUE(std::holds_alternative<Value>(unseal(good, label, trust)));
  EXPECT_EQ(refusal(good, {Kind::tuning, "prod", label.key}, trust), Refusal::swapped);
  EXPECT_EQ(refusal(good, {Kind::binary, "test", label.key}, trust), Refusal::swapped);
  EXPECT_EQ(refusal(good, {Kind::binary, "prod", "fingerprint-2"}, trust), Refusal::swapped);
  EXPECT_EQ(refusal(seal(label, "payload", 1, &theirs), label, trust), Refusal::untrusted);
  EXPECT_EQ(refusal(seal(label, "payload", 1, nullptr), label, trust), Refusal::untrusted);

  // Their value with our public key in place of theirs, and its digest computed anew.
  std::string forged = seal(label, "payload", 1, &theirs);
  forged.replace(forged.find(theirs.public_key()), public_key_bytes, ours.public_key());
  const std::size_t tail = digest_bytes + signature_bytes;
  forged.replace(forged.size() - tail, digest_bytes, sha256(std::string_view(forged).substr(0, forged.size() - tail)));
  EXPECT_EQ(refusal(forged, label, trust), Refusal::untrusted);
}

TEST(Value, HasABoundedSize) {
  std::mt19937_64 random(1);
  std::string noise(max_value_bytes + 4096, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  EXPECT_THROW(seal(label, noise, 1, nullptr), Error);
  EXPECT_THROW(seal(label, std::string(max_payload_bytes + 1, 'x'), 1, nullptr), Error);
}

/// A value with a correct digest, and a payload that is not what the header says.
std::string bomb(std::uint64_t claimed_bytes, const std::string& packed, const SigningKey& key) {
  ByteWriter writer;
  writer.add_raw("TSFV").add(std::uint64_t{1}, 1).add(std::uint64_t{2}, 1).add(label.name_space).add(label.key);
  writer.add(std::uint64_t{1}).add(key.public_key()).add(claimed_bytes).add(packed);
  const std::string digest = sha256(writer.bytes());
  writer.add_raw(digest).add_raw(key.sign("tunesmith fleet value 1" + digest));
  return std::move(writer).bytes();
}

TEST(Value, BombsAreRefused) {
  const SigningKey key = SigningKey::generate();
  const Trust trust{{key.public_key()}};
  const std::string packed = compress(std::string(10 << 20, '\0'));
  ASSERT_LT(packed.size(), 60'000);
  EXPECT_TRUE(std::holds_alternative<Value>(unseal(bomb(10 << 20, packed, key), label, trust)));  // the form is right
  for (const std::uint64_t claimed :
       {std::uint64_t{0}, std::uint64_t{100}, (std::uint64_t{10} << 20) - 1, (std::uint64_t{10} << 20) + 1,
        std::uint64_t{64} << 20, std::uint64_t{65} << 20, std::uint64_t{1} << 62, ~std::uint64_t{0}})
    EXPECT_EQ(refusal(bomb(claimed, packed, key), label, trust), Refusal::damaged) << claimed;
  EXPECT_EQ(refusal(bomb(100, "not deflate", key), label, trust), Refusal::damaged);
}

// 10 000 values: bits flipped, cut, extended, of another key, unsigned, by another signer.
TEST(Value, NoneOfTenThousandBadValuesIsUsed) {
  const SigningKey ours = SigningKey::generate(), theirs = SigningKey::generate();
  const Trust trust{{ours.public_key()}};
  const BinaryRecord binary = sample_binary(label.key, 4000);
  const std::string good = seal(label, encode(binary), 1700000000, &ours);
  ASSERT_TRUE(std::holds_alternative<Value>(unseal(good, label, trust)));
  const Label other{Kind::binary, "prod", "fingerprint-2"};
  const std::string swapped = seal(other, encode(binary), 1, &ours);
  const std::string unsigned_value = seal(label, encode(binary), 1, nullptr);
  const std::string foreign = seal(label, encode(binary), 1, &theirs);
  std::mt19937 random(7);
  int used = 0;
  std::map<Refusal, int> refused;
  for (int i = 0; i < 10'000; ++i) {
    std::string bytes = good;
    const std::size_t at = random() % bytes.size();
    switch (i % 8) {
      case 0:
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8)); break;
      case 2: bytes.resize(at); break;
      case 3: bytes.append(1 + random() % 64, static_cast<char>(random())); break;
      case 4: bytes.replace(at, 1 + random() % 16, std::string(random() % 16, static_cast<char>(random()))); break;
      case 5: bytes = swapped; break;
      case 6: bytes = unsigned_value; break;
      case 7: bytes = foreign; break;
      default: break;
    }
    if (bytes == good) continue;
    const auto opened = unseal(bytes, label, trust);
    if (std::holds_alternative<Value>(opened))
      ++used;
    else
      ++refused[std::get<Refusal>(opened)];
  }
  EXPECT_EQ(used, 0);
  EXPECT_GT(refused[Refusal::damaged], 5000);
  EXPECT_EQ(refused[Refusal::swapped], 1250);
  EXPECT_GE(refused[Refusal::untrusted], 2500);  // and bits of signatures
}

TEST(TuningCodec, RoundTrips) {
  const SharedTuning tuning = sample_tuning(1024);
  const auto decoded = decode_tuning(encode(tuning));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->record.key, tuning.record.key);
  EXPECT_EQ(decoded->record.config, tuning.record.config);
  EXPECT_EQ(decoded->record.provenance, tuning.record.provenance);
  EXPECT_EQ(decoded->record.created_unix_s, tuning.record.created_unix_s);
  EXPECT_EQ(decoded->trials.size(), 20);
  EXPECT_EQ(encode(*decoded), encode(tuning));

  const BinaryRecord binary = sample_binary("f", 1000);
  const auto decoded_binary = decode_binary(encode(binary));
  ASSERT_TRUE(decoded_binary);
  EXPECT_EQ(decoded_binary->image, binary.image);
  EXPECT_EQ(encode(*decoded_binary), encode(binary));

  const Generation generation{{tuning, sample_tuning(2048)}, {{"f", sha256("image")}}};
  const auto decoded_generation = decode_generation(encode(generation));
  ASSERT_TRUE(decoded_generation);
  EXPECT_EQ(encode(*decoded_generation), encode(generation));
}

TEST(TuningCodec, RefusesImpossibleRecords) {
  SharedTuning tuning = sample_tuning(1024);
  tuning.record.median_us = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(decode_tuning(encode(tuning)));
  tuning = sample_tuning(1024);
  tuning.record.median_us = -1;
  EXPECT_FALSE(decode_tuning(encode(tuning)));
  tuning = sample_tuning(-5);
  EXPECT_FALSE(decode_tuning(encode(tuning)));
  tuning = sample_tuning(1024);
  tuning.record.config.clear();
  EXPECT_FALSE(decode_tuning(encode(tuning)));
  const std::string good = encode(sample_tuning(1024));
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(decode_tuning(good.substr(0, size))) << size;
  EXPECT_FALSE(decode_tuning(good + "x"));
  EXPECT_FALSE(decode_binary(encode(sample_binary("f", 0))));
}

}  // namespace
}  // namespace tunesmith::fleet
