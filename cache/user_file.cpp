#include "cache/user_file.h"

#include <system_error>
#include <utility>

#include "cache/recovery.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

// Enough for: found damaged, moved aside, created by another process, opened.
constexpr int max_attempts = 5;

fs::path lock_name(fs::path file) { return file += ".lock"; }

// Reports whether the error means that the file is damaged. Constraint and mismatch errors do, because our statements cannot
// cause them in a healthy file.
bool means_damage(int primary) {
  return primary == SQLITE_NOTADB || primary == SQLITE_CORRUPT || primary == SQLITE_ERROR || primary == SQLITE_FORMAT ||
         primary == SQLITE_CONSTRAINT || primary == SQLITE_MISMATCH;
}

}  // namespace

UserFile::UserFile(const fs::path& file, int busy_timeout_ms, Warnings& warnings, Migrations steps)
    : file_(resolved(file)),
      busy_timeout_ms_(busy_timeout_ms),
      warnings_(warnings),
      steps_(steps),
      lock_(lock_name(file_)) {}

UserFile::Outcome UserFile::read(const Work& work) { return run(false, work); }

UserFile::Outcome UserFile::write(const Work& work) {
  return run(true, [&](Connection& connection) {
    Transaction transaction(connection);
    // Another process may have migrated the file while this one had it open.
    if (check_schema(connection, steps_).state != SchemaCheck::State::current) {
      throw SqliteError(SQLITE_READONLY_DBMOVED, "the schema has changed");
    }
    work(connection);
    transaction.commit();
  });
}

UserFile::Outcome UserFile::run(bool writing, const Work& work) {
  for (int attempt = 0;; ++attempt) {
    try {
      Opened opened = Opened::absent;
      // If there is nothing to read, a read must not even create the lock file; nor does a device such as /dev/null get one,
      // which open() rejects.
      if (const auto found = file_identity(file_); found && !found->regular) {
        opened = open(writing);
      } else if (found) {
        const FileLease lease(lock_, FileLock::Kind::shared, busy_timeout_ms_);
        opened = open(writing);
        if (opened == Opened::ready) {
          work(*connection_);
          if (writing) write_failure_.clear();
          return Outcome::done;
        }
      }
      if (opened == Opened::rejected) {
        fail(rejection_, writing, false);
        return Outcome::failed;
      }
      if (opened == Opened::absent && !writing) return Outcome::absent;
      if (attempt == max_attempts) throw SqliteError(SQLITE_CANTOPEN, "the file keeps changing");
      set_up();
    } catch (const SqliteError& error) {
      if (!handle(error, writing, attempt)) return Outcome::failed;
    }
  }
}

UserFile::Opened UserFile::open(bool writing) {
  const auto now = file_identity(file_);
  const bool needs_writer = writing || reading_fails_;
  if (connection_ && now == identity_ && (connection_writes_ || !needs_writer)) return Opened::ready;
  connection_.reset();
  if (rejected_ && now == rejected_) return Opened::rejected;
  rejected_.reset();
  if (!now) return Opened::absent;
  identity_ = *now;
  if (!now->regular) {
    reject(*now, "is not a regular file");
    return Opened::rejected;
  }
  Inspected inspected = inspect();
  const SchemaCheck found = inspected.found;
  switch (found.state) {
    case SchemaCheck::State::empty: return Opened::absent;
    case SchemaCheck::State::older: return Opened::older;
    case SchemaCheck::State::newer:
    case SchemaCheck::State::foreign: reject(*now, why_not_current(found, steps_)); return Opened::rejected;
    case SchemaCheck::State::damaged:
      throw SqliteError(SQLITE_CORRUPT, "schema version " + std::to_string(found.version) + " is invalid");
    case SchemaCheck::State::current: break;
  }
  // Most processes only read. They keep the connection that inspected the file, which saves opening another one.
  connection_writes_ = needs_writer || inspected.connection.value("PRAGMA journal_mode") != "delete";
  if (connection_writes_)
    inspected.connection = Connection::open_file(file_, Connection::Access::read_write, busy_timeout_ms_);
  inspected.connection.configure();
  connection_.emplace(std::move(inspected.connection));
  return Opened::ready;
}

// Opens the file read-only first, because opening another program's database for writing could change it (play back a
// journal, checkpoint a WAL file).
UserFile::Inspected UserFile::inspect() const {
  const auto open = [&](Connection::Access access) {
    Connection connection = Connection::open_file(file_, access, busy_timeout_ms_);
    const SchemaCheck found = check_schema(connection, steps_);
    return Inspected{std::move(connection), found};
  };
  try {
    return open(Connection::Access::read_only);
  } catch (const SqliteError& error) {
    if (error.primary() != SQLITE_READONLY && error.primary() != SQLITE_CANTOPEN) throw;
  }
  // A killed process left a journal; playing it back requires write access.
  return open(Connection::Access::read_write);
}

void UserFile::set_up() {
  if (const std::string why = create_private_folder(file_.parent_path()); !why.empty())
    throw SqliteError(SQLITE_CANTOPEN, "cannot create the folder " + file_.parent_path().string() + ": " + why);

  const FileLease lease(lock_, FileLock::Kind::exclusive, busy_timeout_ms_);
  connection_.reset();
  const auto before = file_identity(file_);
  identity_ = before.value_or(FileIdentity{});
  SchemaCheck::State state = SchemaCheck::State::empty;
  if (before) {
    if (!before->regular) return;  // open() reports it
    state = inspect().found.state;
    if (state != SchemaCheck::State::empty && state != SchemaCheck::State::older) return;
  }
  // SQLite gives the journal the permissions of the file.
  if (!before) create_private_file(file_);
  Connection connection = Connection::open_file(file_, Connection::Access::create, busy_timeout_ms_);
  connection.configure();
  // Empty tables need not survive a power failure, and the first write waits for the disk anyway. A process that is killed
  // meanwhile leaves a journal, as always.
  if (state == SchemaCheck::State::empty) connection.execute("PRAGMA synchronous=OFF");
  migrate(connection, steps_);
  connection.execute("PRAGMA synchronous=FULL");
  if (const auto now = file_identity(file_)) {
    identity_ = *now;
    rejected_.reset();
    connection_.emplace(std::move(connection));
    connection_writes_ = true;
  }
  if (!before && on_network_file_system(file_)) {
    warnings_.once("network", "cache " + file_.string() + " is on a network file system, where file locks may not work; " +
                                  "prefer a local disk");
  }
}

bool UserFile::handle(const SqliteError& error, bool writing, int attempt) {
  const bool again = attempt < max_attempts;
  const bool wants_writer = error.primary() == SQLITE_READONLY || error.primary() == SQLITE_CANTOPEN;
  if (connection_ && !connection_writes_ && wants_writer && again) {
    // Another process was killed during a write, so its journal must be played back.
    connection_.reset();
    reading_fails_ = true;
    return true;
  }
  switch (error.primary()) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED: fail(error.what(), writing, true); return false;
    case SQLITE_READONLY:
      if (error.code() != SQLITE_READONLY_DBMOVED || !again) break;
      connection_.reset();
      return true;
    case SQLITE_CANTOPEN:
      if (writing || !again || file_identity(file_)) break;
      connection_.reset();
      return true;  // it was removed while it was being opened
    default:
      if (means_damage(error.primary()) && again) {
        if (recover(error)) return true;
        if (!rejected_) fail(error.what(), writing, false);
        return false;
      }
  }
  // After a failed write the connection can still read; after a failed read it is useless.
  if (!writing) connection_.reset();
  fail(error.what(), writing, false);
  return false;
}

bool UserFile::recover(const SqliteError& error) {
  // This may be a later version, written while the file was open, and not damage; open() will detect it.
  if (connection_ && error.primary() == SQLITE_ERROR) {
    try {
      const SchemaCheck found = check_schema(*connection_, steps_);
      if (found.state == SchemaCheck::State::newer) {
        connection_.reset();
        return true;
      }
    } catch (const SqliteError&) {  // the file is damaged
    }
  }
  connection_.reset();
  const FileIdentity broken = identity_;
  try {
    const FileLease lease(lock_, FileLock::Kind::exclusive, busy_timeout_ms_);
    if (file_identity(file_) != broken) return true;  // another process has moved it already
    last_aside_ = move_aside(file_);
    ++recoveries_;
    warnings_.once("moved " + last_aside_.string(), "cache " + file_.string() + " was damaged (" + error.what() +
                                                        "); moved to " + last_aside_.string() +
                                                        " and replaced by a new file");
    return true;
  } catch (const SqliteError& lock_error) {
    if (lock_error.primary() == SQLITE_BUSY) {
      fail(lock_error.what(), false, true);
    } else {
      reject(broken, std::string("is damaged (") + error.what() + ") and cannot be moved aside: " + lock_error.what());
    }
  } catch (const fs::filesystem_error& rename_error) {
    reject(broken, std::string("is damaged (") + error.what() + ") and cannot be moved aside: " + rename_error.what());
  }
  return false;
}

void UserFile::reject(const FileIdentity& identity, const std::string& why) {
  rejected_ = identity;
  rejection_ = file_.string() + " " + why;
  failure_ = rejection_;
  warnings_.once("refused", "cache " + rejection_ + "; results are kept in memory only");
}

void UserFile::fail(const std::string& why, bool writing, bool busy) {
  failure_ = why;
  if (rejected_) return;  // a warning with the reason was given
  if (busy) {
    warnings_.once("busy", "cache " + file_.string() + " is in use by another process: " + why);
  } else if (writing) {
    write_failure_ = why;
    warnings_.once("write", "cache " + file_.string() + " cannot be written: " + why + "; results are kept in memory only");
  } else {
    warnings_.once("read", "cache " + file_.string() + " cannot be read: " + why);
  }
}

std::string UserFile::why_not_writable() const {
  if (rejected_) return rejection_;
  if (const std::string why = tunesmith::why_not_writable(file_); !why.empty()) return why;
  if (connection_ && connection_writes_ && connection_->read_only()) return file_.string() + " is read-only";
  return write_failure_;
}

}  // namespace tunesmith
