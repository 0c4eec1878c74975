#pragma once
// A connection to SQLite, its prepared statements and its errors, as values that clean up after themselves. Knows nothing of
// what the cache stores. Not thread-safe: whoever owns a Connection serializes its use.

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tunesmith {

/// A call that SQLite refused. Stays inside this folder: the layers above turn it into a miss, a warning or an Error.
class SqliteError : public std::runtime_error {
 public:
  SqliteError(int extended_code, const std::string& message) : std::runtime_error(message), code_(extended_code) {}
  int code() const noexcept { return code_; }            ///< extended result code
  int primary() const noexcept { return code_ & 0xff; }  ///< e.g. SQLITE_BUSY

 private:
  int code_;
};

/// Bytes that are bound as a BLOB; they must outlive the Query.
struct Blob {
  std::string_view bytes;
};

/// One execution of a prepared statement. Resets it at the end, which also ends an implicit read transaction: keep it short.
class Query {
 public:
  /// Binds the arguments in order, the first to ?1.
  template <typename... Arguments>
  Query(sqlite3* database, sqlite3_stmt* statement, const Arguments&... arguments)
      : reset_(statement), database_(database), statement_(statement) {
    int index = 0;
    (bind(++index, arguments), ...);
  }

  void bind(int index, std::int64_t value);
  void bind(int index, int value) { bind(index, std::int64_t{value}); }
  void bind(int index, double value);  // NaN becomes NULL
  void bind(int index, std::string_view value);
  void bind(int index, const std::string& value) { bind(index, std::string_view(value)); }
  void bind(int index, const char* value) { bind(index, std::string_view(value)); }
  void bind(int index, Blob value);

  /// True when a row is there to be read. Throws SqliteError.
  bool next();
  /// Runs a statement that gives no rows, to its end.
  void run();

  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double real(int column) const;        // NULL becomes NaN
  std::string bytes(int column) const;  // TEXT or BLOB, embedded zeros included
  std::int64_t length(int column) const { return sqlite3_column_bytes(statement_, column); }

 private:
  // A member of its own, so that a statement is reset even when binding throws in the constructor.
  struct Reset {
    void operator()(sqlite3_stmt* statement) const;
  };

  void check(int result) const;

  std::unique_ptr<sqlite3_stmt, Reset> reset_;
  sqlite3* database_;
  sqlite3_stmt* statement_;
};

class Connection {
 public:
  enum class Access { read_only, read_write, create };

  /// Opens with the busy timeout set before anything else. Settings that touch the file are applied by configure().
  static Connection open_file(const std::filesystem::path& file, Access access, int busy_timeout_ms);
  /// For files that nobody writes: no locks are taken and no journal is looked for.
  static Connection open_immutable(const std::filesystem::path& file);
  static Connection open_memory();

  /// Rollback journal, synchronous=FULL, foreign keys, no memory mapping. Reads the file.
  void configure();

  /// The statement of this text, prepared once and kept; `sql` must be a string literal. Arguments are bound in order.
  template <typename... Arguments>
  Query query(const char* sql, const Arguments&... arguments) {
    return Query(database_.get(), prepare(sql), arguments...);
  }
  /// Statements without parameters or results that are not worth keeping.
  void execute(const std::string& sql);
  /// First column of the first row of a statement that is not kept, e.g. a pragma.
  std::string value(const std::string& sql);

  std::int64_t changes() const { return sqlite3_changes64(database_.get()); }
  bool in_transaction() const { return sqlite3_get_autocommit(database_.get()) == 0; }
  bool read_only() const { return sqlite3_db_readonly(database_.get(), "main") == 1; }

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
  };
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };

  Connection(const std::string& name, int flags, int busy_timeout_ms);
  sqlite3_stmt* prepare(const char* sql);
  std::unique_ptr<sqlite3_stmt, Finalize> compile(const char* sql, unsigned flags);

  std::unique_ptr<sqlite3, Close> database_;
  std::unordered_map<const char*, std::unique_ptr<sqlite3_stmt, Finalize>> statements_;  // destroyed before database_
};

/// BEGIN IMMEDIATE ... COMMIT; rolls back when it is left without commit().
class Transaction {
 public:
  explicit Transaction(Connection& connection) : connection_(connection) { connection_.query("BEGIN IMMEDIATE").run(); }
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit() { connection_.query("COMMIT").run(); }

 private:
  Connection& connection_;
};

/// "file:/a%20b.db" for SQLite's URI file names.
std::string file_uri(const std::filesystem::path& file);

}  // namespace tunesmith
