#pragma once
// RAII wrappers of an SQLite connection, its prepared statements and its errors, independent of what the cache stores. Not
// thread-safe: the owner of a Connection must serialize its use.

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/utf8.h"

namespace tunesmith {

/// A failed SQLite call. It does not leave this folder; the callers turn it into a miss, a warning or an Error.
class SqliteError : public std::runtime_error {
 public:
  SqliteError(int extended_code, const std::string& message)
      : std::runtime_error(printable(message)), code_(extended_code) {}
  int code() const noexcept { return code_; }            ///< extended result code
  int primary() const noexcept { return code_ & 0xff; }  ///< e.g. SQLITE_BUSY

 private:
  int code_;
};

/// Bytes to bind as a BLOB; they must outlive the Query.
struct Blob {
  std::string_view bytes;
};

/// One execution of a prepared statement. The destructor resets it, which also ends an implicit read transaction.
class Query {
 public:
  /// Binds the arguments in order, starting at ?1.
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

  /// Steps to the next row; returns false if there is none. Throws SqliteError.
  bool next();
  /// Runs a statement that returns no rows.
  void run();

  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double real(int column) const;        // NULL becomes NaN
  std::string bytes(int column) const;  // TEXT or BLOB, embedded zeros included
  std::int64_t length(int column) const { return sqlite3_column_bytes(statement_, column); }

 private:
  // A separate member, so that the statement is reset even if binding throws in the constructor.
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

  /// Opens a file and sets the busy timeout. configure() applies the settings that access the file.
  static Connection open_file(const std::filesystem::path& file, Access access, int busy_timeout_ms);
  /// Opens a file that is never written, without locks and without looking for a journal.
  static Connection open_immutable(const std::filesystem::path& file);
  static Connection open_memory();
  /// Copies the database into memory.
  Connection copy_to_memory() const;

  /// Sets a rollback journal, synchronous=FULL, foreign keys and no memory mapping. Reads the file.
  void configure();

  /// Starts a statement, which is prepared once and cached. `sql` must be a string literal. Binds the arguments in order.
  template <typename... Arguments>
  Query query(const char* sql, const Arguments&... arguments) {
    return Query(database_.get(), prepare(sql), arguments...);
  }
  /// Runs statements without parameters or results; does not cache them.
  void execute(const std::string& sql);
  /// Returns the first column of the first row of a statement, e.g. a pragma; does not cache it.
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

/// A transaction: BEGIN IMMEDIATE ... COMMIT. The destructor rolls back if commit() was not called.
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

/// Returns the file name as a URI for SQLite: "file:/a%20b.db".
std::string file_uri(const std::filesystem::path& file);

}  // namespace tunesmith
