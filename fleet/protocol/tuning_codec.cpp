#include "fleet/protocol/tuning_codec.h"

#include <cmath>
#include <utility>

#include "fleet/protocol/bytes.h"
#include "fleet/protocol/value.h"
#include "fleet/signing.h"

namespace tunesmith::fleet {
namespace {

constexpr std::size_t max_name = 1 << 10, max_text = 1 << 16, max_trials = 1 << 14, max_facts = 1 << 8;
constexpr std::size_t max_tunings = 1 << 18, max_binaries = 1 << 18;

std::uint64_t to_unsigned(std::int64_t value) { return static_cast<std::uint64_t>(value); }

void write(ByteWriter& writer, const TuningKey& key) {
  writer.add(key.op).add(key.problem_class).add(to_unsigned(key.n_cols)).add(to_unsigned(key.rows_bucket));
  writer.add(key.device_class).add(key.template_digest).add(key.policy);
}

TuningKey read_key(ByteReader& reader) {
  TuningKey key;
  key.op = reader.text(max_name);
  key.problem_class = reader.text(max_text);
  key.n_cols = static_cast<std::int64_t>(reader.integer());
  key.rows_bucket = static_cast<std::int64_t>(reader.integer());
  key.device_class = reader.text(max_name);
  key.template_digest = reader.text(max_name);
  key.policy = reader.text(max_name);
  return key;
}

void write(ByteWriter& writer, const std::map<std::string, std::string>& facts) {
  writer.add(std::uint64_t{facts.size()}, 4);
  for (const auto& [name, value] : facts) writer.add(name).add(value);
}

std::map<std::string, std::string> read_facts(ByteReader& reader) {
  std::map<std::string, std::string> facts;
  const std::uint64_t count = reader.integer(4);
  if (count > max_facts) return facts;
  for (std::uint64_t i = 0; i < count && !reader.failed(); ++i) {
    std::string name(reader.text(max_name));
    facts[std::move(name)] = reader.text(max_text);
  }
  return facts;
}

void write(ByteWriter& writer, const SharedTuning& tuning) {
  const TuningRecord& record = tuning.record;
  write(writer, record.key);
  writer.add(record.config).add(record.median_us).add(record.mad_us).add(record.default_median_us).add(record.bytes);
  writer.add(record.problem).add(record.effort);
  write(writer, record.provenance);
  writer.add(to_unsigned(record.created_unix_s)).add(std::uint64_t{tuning.trials.size()}, 4);
  for (const Trial& trial : tuning.trials)
    writer.add(trial.config)
        .add(trial.status)
        .add(trial.median_us)
        .add(trial.mad_us)
        .add(to_unsigned(trial.samples), 4)
        .add(trial.reason);
}

bool is_time(double time_us) { return std::isfinite(time_us) && time_us >= 0; }

bool is_possible(const TuningRecord& record) {
  return !record.key.op.empty() && !record.config.empty() && record.key.n_cols >= 0 && record.key.rows_bucket >= 0 &&
         is_time(record.median_us) && is_time(record.mad_us) && is_time(record.default_median_us) && is_time(record.bytes) &&
         record.created_unix_s >= 0;
}

std::optional<SharedTuning> read_tuning(ByteReader& reader) {
  SharedTuning tuning;
  TuningRecord& record = tuning.record;
  record.key = read_key(reader);
  record.config = reader.text(max_text);
  record.median_us = reader.real();
  record.mad_us = reader.real();
  record.default_median_us = reader.real();
  record.bytes = reader.real();
  record.problem = reader.text(max_text);
  record.effort = reader.text(max_name);
  record.provenance = read_facts(reader);
  record.created_unix_s = static_cast<std::int64_t>(reader.integer());
  const std::uint64_t count = reader.integer(4);
  if (reader.failed() || count > max_trials || !is_possible(record)) return std::nullopt;
  for (std::uint64_t i = 0; i < count && !reader.failed(); ++i) {
    Trial trial;
    trial.config = reader.text(max_text);
    trial.status = reader.text(max_name);
    trial.median_us = reader.real();
    trial.mad_us = reader.real();
    trial.samples = static_cast<int>(reader.integer(4) & 0x7fffffff);
    trial.reason = reader.text(max_text);
    if (!is_time(trial.median_us) || !is_time(trial.mad_us)) return std::nullopt;
    tuning.trials.push_back(std::move(trial));
  }
  if (reader.failed()) return std::nullopt;
  return tuning;
}

}  // namespace

std::string key_bytes(const TuningKey& key) {
  ByteWriter writer;
  write(writer, key);
  return std::move(writer).bytes();
}

std::string family_bytes(const TuningKey& key) {
  TuningKey family = key;
  family.n_cols = family.rows_bucket = 0;
  return key_bytes(family);
}

std::string encode(const SharedTuning& tuning) {
  ByteWriter writer;
  write(writer, tuning);
  return std::move(writer).bytes();
}

std::optional<SharedTuning> decode_tuning(std::string_view bytes) {
  ByteReader reader(bytes);
  std::optional<SharedTuning> tuning = read_tuning(reader);
  return reader.is_done() ? std::move(tuning) : std::nullopt;
}

std::string encode(const BinaryRecord& binary) {
  ByteWriter writer;
  writer.add(binary.fingerprint).add(binary.source_hash).add(binary.options).add(binary.arch).add(binary.toolchain);
  writer.add(binary.op).add(binary.image).add(binary.log);
  write(writer, binary.resources);
  return std::move(writer).bytes();
}

std::optional<BinaryRecord> decode_binary(std::string_view bytes) {
  ByteReader reader(bytes);
  BinaryRecord binary;
  binary.fingerprint = reader.text(max_name);
  binary.source_hash = reader.text(max_name);
  binary.options = reader.text(max_text);
  binary.arch = reader.text(max_name);
  binary.toolchain = reader.text(max_text);
  binary.op = reader.text(max_name);
  binary.image = reader.text(max_payload_bytes);
  binary.log = reader.text(max_payload_bytes);
  binary.resources = read_facts(reader);
  if (!reader.is_done() || binary.fingerprint.empty() || binary.image.empty()) return std::nullopt;
  return binary;
}

std::string encode(const Generation& generation) {
  ByteWriter writer;
  writer.add(std::uint64_t{generation.tunings.size()}, 4);
  for (const SharedTuning& tuning : generation.tunings) write(writer, tuning);
  writer.add(std::uint64_t{generation.binaries.size()}, 4);
  for (const auto& [fingerprint, digest] : generation.binaries) writer.add(fingerprint).add_raw(digest);
  return std::move(writer).bytes();
}

std::optional<Generation> decode_generation(std::string_view bytes) {
  ByteReader reader(bytes);
  Generation generation;
  const std::uint64_t tunings = reader.integer(4);
  if (tunings > max_tunings) return std::nullopt;
  for (std::uint64_t i = 0; i < tunings; ++i) {
    std::optional<SharedTuning> tuning = read_tuning(reader);
    if (!tuning) return std::nullopt;
    generation.tunings.push_back(std::move(*tuning));
  }
  const std::uint64_t binaries = reader.integer(4);
  if (binaries > max_binaries) return std::nullopt;
  for (std::uint64_t i = 0; i < binaries && !reader.failed(); ++i) {
    std::string fingerprint(reader.text(max_name));
    generation.binaries[std::move(fingerprint)] = reader.raw(digest_bytes);
  }
  if (!reader.is_done()) return std::nullopt;
  return generation;
}

}  // namespace tunesmith::fleet
