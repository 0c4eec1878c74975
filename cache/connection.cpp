#include "cache/connection.h"

#include <limits>
#include <system_error>

namespace tunesmith {
namespace {

[[noreturn]] void fail(sqlite3* database, int result, const std::string& what) {
  const int code = database ? sqlite3_extended_errcode(database) : result;
  std::string message = database ? sqlite3_errmsg(database) : sqlite3_errstr(result);
  if (const int system_error = database ? sqlite3_system_errno(database) : 0; system_error != 0) {
    const int primary = code & 0xff;
    if (primary == SQLITE_CANTOPEN || primary == SQLITE_IOERR || primary == SQLITE_FULL) {
      message += " (" + std::generic_category().message(system_error) + ")";
    }
  }
  // If SQLite reports misuse, the connection's error code may come from an earlier call.
  throw SqliteError((code & 0xff) == (result & 0xff) ? code : result, what.empty() ? message : what + ": " + message);
}

}  // namespace

void Query::Reset::operator()(sqlite3_stmt* statement) const {
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
}

void Query::check(int result) const {
  if (result != SQLITE_OK) fail(database_, result, "");
}

void Query::bind(int index, std::int64_t value) { check(sqlite3_bind_int64(statement_, index, value)); }

void Query::bind(int index, double value) { check(sqlite3_bind_double(statement_, index, value)); }

void Query::bind(int index, std::string_view value) {
  const char* data = value.data() ? value.data() : "";  // a null pointer would bind NULL
  check(sqlite3_bind_text64(statement_, index, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Query::bind(int index, Blob value) {
  const char* data = value.bytes.data() ? value.bytes.data() : "";
  check(sqlite3_bind_blob64(statement_, index, data, value.bytes.size(), SQLITE_STATIC));
}

bool Query::next() {
  const int result = sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result != SQLITE_DONE) fail(database_, result, "");
  return false;
}

void Query::run() {
  while (next()) {
  }
}

double Query::real(int column) const {
  if (sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::numeric_limits<double>::quiet_NaN();
  return sqlite3_column_double(statement_, column);
}

std::string Query::bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);  // before column_bytes: the documented order
  const int size = sqlite3_column_bytes(statement_, column);
  return data ? std::string(static_cast<const char*>(data), static_cast<std::size_t>(size)) : std::string();
}

Connection::Connection(const std::string& name, int flags, int busy_timeout_ms) {
  sqlite3* database = nullptr;
  const int result =
      sqlite3_open_v2(name.c_str(), &database, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, nullptr);
  database_.reset(database);  // set even if opening failed
  if (result != SQLITE_OK) fail(database, result, "");
  sqlite3_busy_timeout(database, busy_timeout_ms);
  sqlite3_extended_result_codes(database, 1);
  // Treat the file as data: its schema must not run functions or modify SQLite's own tables.
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
}

Connection Connection::open_file(const std::filesystem::path& file, Access access, int busy_timeout_ms) {
  const int flags = access == Access::read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  // SQLite never takes an absolute path for a URI.
  return Connection(std::filesystem::absolute(file).string(), access == Access::create ? flags | SQLITE_OPEN_CREATE : flags,
                    busy_timeout_ms);
}

Connection Connection::open_immutable(const std::filesystem::path& file) {
  return Connection(file_uri(file) + "?mode=ro&immutable=1", SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, 0);
}

Connection Connection::open_memory() { return Connection(":memory:", SQLITE_OPEN_READWRITE, 0); }

Connection Connection::copy_to_memory() const {
  Connection copy = open_memory();
  sqlite3_backup* const backup = sqlite3_backup_init(copy.database_.get(), "main", database_.get(), "main");
  if (backup != nullptr) sqlite3_backup_step(backup, -1);
  // The connection has the error of the whole.
  if (const int result = backup != nullptr ? sqlite3_backup_finish(backup) : SQLITE_ERROR; result != SQLITE_OK)
    fail(copy.database_.get(), result, "copying into memory");
  return copy;
}

void Connection::configure() {
  execute("PRAGMA mmap_size=0; PRAGMA cell_size_check=ON; PRAGMA foreign_keys=ON; PRAGMA synchronous=FULL;");
  // Never use WAL: several common versions of SQLite can corrupt a WAL file if a write and a checkpoint race, WAL needs
  // shared memory that network file systems lack, and our writes are too rare to benefit. If a file was switched to WAL,
  // switch it back; that fails while other processes hold it open.
  if (value("PRAGMA journal_mode") != "delete" && !read_only() && value("PRAGMA journal_mode=DELETE") == "wal") {
    throw SqliteError(SQLITE_BUSY, "another program holds the file open in WAL mode");
  }
}

std::unique_ptr<sqlite3_stmt, Connection::Finalize> Connection::compile(const char* sql, unsigned flags) {
  sqlite3_stmt* statement = nullptr;
  const int result = sqlite3_prepare_v3(database_.get(), sql, -1, flags, &statement, nullptr);
  if (result != SQLITE_OK) fail(database_.get(), result, "");
  return std::unique_ptr<sqlite3_stmt, Finalize>(statement);
}

sqlite3_stmt* Connection::prepare(const char* sql) {
  if (const auto found = statements_.find(sql); found != statements_.end()) return found->second.get();
  auto statement = compile(sql, SQLITE_PREPARE_PERSISTENT);
  return statements_.emplace(sql, std::move(statement)).first->second.get();
}

void Connection::execute(const std::string& sql) {
  if (const int result = sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr); result != SQLITE_OK) {
    fail(database_.get(), result, "");
  }
}

std::string Connection::value(const std::string& sql) {
  const auto statement = compile(sql.c_str(), 0);
  Query query(database_.get(), statement.get());
  return query.next() ? query.bytes(0) : std::string();
}

Transaction::~Transaction() {
  if (!connection_.in_transaction()) return;  // committed, or SQLite has rolled back by itself
  try {
    connection_.query("ROLLBACK").run();
  } catch (const SqliteError&) {  // ignored: the journal restores the file when it is next read
  }
}

std::string file_uri(const std::filesystem::path& file) {
  static constexpr char hex[] = "0123456789ABCDEF";
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(file).string()) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' || c == '.' ||
                       c == '-' || c == '_' || c == '~';
    if (plain) {
      uri += c;
    } else {
      uri += '%';
      uri += hex[byte >> 4];
      uri += hex[byte & 15];
    }
  }
  return uri;
}

}  // namespace tunesmith
