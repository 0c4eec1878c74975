#include "cache/binaries.h"

#include <utility>

namespace tunesmith {
namespace {

std::string checksum(const StoredBinary& stored) {
  const BinaryRecord& binary = stored.binary;
  RowDigest digest("binary 1");
  digest.add(binary.fingerprint).add(binary.op).add(binary.source_hash).add(binary.options).add(binary.arch);
  digest.add(binary.toolchain).add(binary.log).add(to_lines(binary.resources)).add(stored.created_unix_s);
  digest.add(binary.image);
  return digest.hex();
}

std::string source_checksum(const std::string& hash, const std::string& source) {
  return RowDigest("source 1").add(hash).add(source).hex();
}

#define BINARY_COLUMNS "fingerprint, op, source_hash, options, arch, toolchain, log, resources, created, checksum, image"

StoredBinary binary_at(const Query& query) {
  StoredBinary stored;
  stored.binary.fingerprint = query.bytes(0);
  stored.binary.op = query.bytes(1);
  stored.binary.source_hash = query.bytes(2);
  stored.binary.options = query.bytes(3);
  stored.binary.arch = query.bytes(4);
  stored.binary.toolchain = query.bytes(5);
  stored.binary.log = query.bytes(6);
  stored.binary.resources = from_lines(query.bytes(7));
  stored.created_unix_s = query.integer(8);
  stored.binary.image = query.bytes(10);
  return stored;
}

bool healthy(const Query& query, const StoredBinary& stored) { return query.bytes(9) == checksum(stored); }

std::int64_t erase_unused_sources(Connection& connection) {
  connection.query("DELETE FROM sources WHERE hash NOT IN (SELECT source_hash FROM binaries)").run();
  return connection.changes();
}

}  // namespace

Lookup<StoredBinary> read_binary(Connection& connection, const std::string& fingerprint) {
  Query query = connection.query("SELECT " BINARY_COLUMNS " FROM binaries WHERE fingerprint=?1", fingerprint);
  if (!query.next()) return {};
  StoredBinary stored = binary_at(query);
  if (!healthy(query, stored) || stored.binary.fingerprint != fingerprint) return {std::nullopt, true};
  return {std::move(stored), false};
}

Lookup<StoredBinary> read_binary_of_source(Connection& connection, const std::string& source_key, const std::string& arch) {
  // '.' follows '-': the range holds what starts with the key and a hyphen, and the index on fingerprints finds it.
  const std::string prefix = source_key + "-", end = source_key + ".";
  Query query = connection.query("SELECT " BINARY_COLUMNS
                                 " FROM binaries WHERE fingerprint>?1 AND fingerprint<?2 AND arch=?3"
                                 " ORDER BY created DESC, id DESC",
                                 prefix, end, arch);
  Lookup<StoredBinary> found;
  while (query.next()) {
    StoredBinary stored = binary_at(query);
    if (healthy(query, stored) && stored.binary.fingerprint.starts_with(prefix) && stored.binary.arch == arch) {
      found.row = std::move(stored);
      break;
    }
    found.damaged = true;
  }
  return found;
}

Lookup<std::string> read_source(Connection& connection, const std::string& source_hash) {
  Query query = connection.query("SELECT source, checksum FROM sources WHERE hash=?1", source_hash);
  if (!query.next()) return {};
  std::string source = query.bytes(0);
  if (query.bytes(1) != source_checksum(source_hash, source)) return {std::nullopt, true};
  return {std::move(source), false};
}

std::vector<BinaryInfo> list_binaries(Connection& connection) {
  Query query = connection.query(R"sql(SELECT fingerprint, source_hash, arch, toolchain, op, length(image), created
    FROM binaries ORDER BY fingerprint)sql");
  std::vector<BinaryInfo> list;
  while (query.next()) {
    list.push_back({query.bytes(0), query.bytes(1), query.bytes(2), query.bytes(3), query.bytes(4), query.integer(5),
                    query.integer(6)});
  }
  return list;
}

void for_each_binary(Connection& connection, const std::function<void(StoredBinary&&, bool)>& take) {
  Query query = connection.query("SELECT " BINARY_COLUMNS " FROM binaries ORDER BY fingerprint");
  while (query.next()) {
    StoredBinary stored = binary_at(query);
    const bool is_healthy = healthy(query, stored);
    take(std::move(stored), is_healthy);
  }
}

void for_each_source(Connection& connection, const std::function<void(std::string&&, std::string&&, bool)>& take) {
  Query query = connection.query("SELECT hash, source, checksum FROM sources ORDER BY hash");
  while (query.next()) {
    std::string hash = query.bytes(0), source = query.bytes(1);
    const bool is_healthy = query.bytes(2) == source_checksum(hash, source);
    take(std::move(hash), std::move(source), is_healthy);
  }
}

void write_binary(Connection& connection, const StoredBinary& stored) {
  const BinaryRecord& binary = stored.binary;
  connection
      .query("INSERT INTO binaries (" BINARY_COLUMNS R"sql()
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT (fingerprint) DO UPDATE SET op=excluded.op,
        source_hash=excluded.source_hash, options=excluded.options, arch=excluded.arch, toolchain=excluded.toolchain,
        log=excluded.log, resources=excluded.resources, created=excluded.created, checksum=excluded.checksum,
        image=excluded.image)sql",
             binary.fingerprint, binary.op, binary.source_hash, binary.options, binary.arch, binary.toolchain, binary.log,
             to_lines(binary.resources), stored.created_unix_s, checksum(stored), Blob{binary.image})
      .run();
}

std::int64_t write_source(Connection& connection, const std::string& source_hash, const std::string& source) {
  // Rewrites the row only if it is damaged or differs.
  connection
      .query(R"sql(INSERT INTO sources (hash, checksum, source) VALUES (?1, ?2, ?3) ON CONFLICT (hash) DO UPDATE SET
        checksum=excluded.checksum, source=excluded.source
        WHERE sources.checksum<>excluded.checksum OR sources.source<>excluded.source)sql",
             source_hash, source_checksum(source_hash, source), source)
      .run();
  return connection.changes();
}

std::int64_t erase_binary(Connection& connection, const std::string& fingerprint) {
  connection.query("DELETE FROM binaries WHERE fingerprint=?1", fingerprint).run();
  const std::int64_t removed = connection.changes();
  return removed == 0 ? 0 : removed + erase_unused_sources(connection);
}

std::string erase_oldest_binary(Connection& connection) {
  std::string fingerprint;
  {
    Query query = connection.query("SELECT fingerprint FROM binaries ORDER BY created, id LIMIT 1");
    if (query.next()) fingerprint = query.bytes(0);
  }
  if (!fingerprint.empty()) erase_binary(connection, fingerprint);
  return fingerprint;
}

std::int64_t erase_binaries_of(Connection& connection, const std::string& op) {
  connection.query("DELETE FROM binaries WHERE ?1='' OR op=?1", op).run();
  const std::int64_t removed = connection.changes();
  return removed + erase_unused_sources(connection);
}

std::vector<std::string> sweep_binaries(Connection& connection, bool remove) {
  std::vector<std::string> problems;
  // NOT INDEXED, because the index may be damaged.
  std::vector<std::int64_t> binaries, sources;
  {
    Query query = connection.query("SELECT " BINARY_COLUMNS ", id FROM binaries NOT INDEXED");
    while (query.next()) {
      const StoredBinary stored = binary_at(query);
      if (healthy(query, stored)) continue;
      binaries.push_back(query.integer(11));
      problems.push_back("binary '" + stored.binary.fingerprint + "' fails its checksum");
    }
  }
  if (!remove) binaries.clear();
  for (const std::int64_t id : binaries) connection.query("DELETE FROM binaries WHERE id=?1", id).run();
  {
    Query query = connection.query("SELECT hash, source, checksum, id FROM sources NOT INDEXED");
    while (query.next()) {
      const std::string hash = query.bytes(0);
      if (query.bytes(2) == source_checksum(hash, query.bytes(1))) continue;
      sources.push_back(query.integer(3));
      problems.push_back("source '" + hash + "' fails its checksum");
    }
  }
  if (!remove) sources.clear();
  for (const std::int64_t id : sources) connection.query("DELETE FROM sources WHERE id=?1", id).run();
  return problems;
}

#undef BINARY_COLUMNS

}  // namespace tunesmith
