// The functions behind `tunesmith cache`. Unlike lookups, they throw.

#include "cache/maintenance.h"

#include <system_error>
#include <utility>

#include "cache/binaries.h"
#include "cache/file_system.h"
#include "cache/impl.h"
#include "cache/merge.h"
#include "cache/publish.h"
#include "cache/records.h"
#include "cache/schema.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;
using Outcome = UserFile::Outcome;

void add_counts(CacheInfo& info, Connection& connection) {
  info.records += count(connection, "SELECT count(*) FROM records");
  info.trials += count(connection, "SELECT count(*) FROM trials");
  info.binaries += count(connection, "SELECT count(*) FROM binaries");
  info.sources += count(connection, "SELECT count(*) FROM sources");
  info.binary_bytes += count(connection, "SELECT coalesce(sum(length(image)), 0) FROM binaries");
}

std::vector<std::string> sweep(Connection& connection, bool remove) {
  std::vector<std::string> problems = sweep_records(connection, remove);
  for (std::string& problem : sweep_binaries(connection, remove)) problems.push_back(std::move(problem));
  return problems;
}

std::int64_t erase(Connection& connection, const Cache::Filter& filter) {
  return erase_binaries_of(connection, filter.op) + (filter.binaries_only ? 0 : erase_records_of(connection, filter.op));
}

void copy_to_new_file(UserFile* user, Connection* memory, const fs::path& file, bool with_binaries) {
  std::string trouble;
  const auto copy = [&](Connection& connection) {
    try {
      connection.query("VACUUM INTO ?1", file.string()).run();
    } catch (const SqliteError& error) {
      if (concerns_the_cache(error)) throw;
      trouble = error.what();
    }
  };
  if (user && user->read(copy) == Outcome::failed) trouble = user->failure();
  if (!trouble.empty()) throw Error(ErrorCode::cache_failed, trouble);

  Connection connection = Connection::open_file(file, Connection::Access::create, 0);
  connection.configure();
  migrate(connection);  // creates the tables if there was no file to copy
  {
    Transaction transaction(connection);
    if (memory) merge(connection, *memory, "memory", true);
    sweep(connection, true);
    if (!with_binaries) erase_binaries_of(connection, "");
    transaction.commit();
  }
  connection.execute("VACUUM");
}

// Returns the reason of a failure; empty on success.
std::string merge_into(Layers& layers, Connection& source, const std::string& source_name, bool with_code,
                       std::int64_t& taken) {
  UserFile* user = layers.user();
  if (!user) {
    Transaction transaction(layers.memory());
    taken = merge(layers.memory(), source, source_name, with_code);
    transaction.commit();
    return "";
  }
  const Outcome outcome =
      user->write([&](Connection& connection) { taken = merge(connection, source, source_name, with_code); });
  return outcome == Outcome::done ? "" : user->failure();
}

// Counts the rows of a file, or sets the reason why it cannot be read.
SystemFileInfo describe(SystemFile& file) {
  SystemFileInfo info;
  info.file = file.path();
  file.read([&](Connection& connection) {
    info.records = count(connection, "SELECT count(*) FROM records");
    info.binaries = count(connection, "SELECT count(*) FROM binaries");
  });
  info.ignored = file.why_ignored();
  return info;
}

}  // namespace

std::int64_t count(Connection& connection, const char* sql) {
  Query query = connection.query(sql);
  return query.next() ? query.integer(0) : 0;
}

void require_sqlite(const Layers& layers) {
  if (layers.in_doubt()) {
    throw Error(ErrorCode::cache_failed, "this process was forked while its parent used the cache, so it cannot use it");
  }
}

bool concerns_the_cache(const SqliteError& error) {
  return error.primary() == SQLITE_CORRUPT || error.primary() == SQLITE_NOTADB || error.primary() == SQLITE_BUSY;
}

void give_space_back(UserFile& user) {
  user.read([](Connection& connection) {
    try {
      connection.execute("VACUUM");
    } catch (const SqliteError& error) {  // the rows are removed; only the space is not released yet
      if (concerns_the_cache(error) && error.primary() != SQLITE_BUSY) throw;
    }
  });
}

CacheInfo Cache::info() {
  return impl_->enter([&](Layers& layers) {
    CacheInfo info;
    info.file = impl_->options.file;
    for (SystemFile& file : layers.system()) info.system_files.push_back(describe(file));
    info.sqlite_version = sqlite3_libversion();
    try {
      if (Connection* memory = layers.memory_if_used()) add_counts(info, *memory);
    } catch (const SqliteError&) {  // out of memory; report the rest
    }
    UserFile* user = layers.user();
    if (!user) {
      info.why_not_writable = info.file.empty() ? "no file is set" : "the process was forked while the cache was in use";
      return info;
    }
    CacheInfo with_file = info;
    const Outcome outcome = user->read([&](Connection& connection) {
      with_file = info;  // the work may run twice
      add_counts(with_file, connection);
      with_file.journal_mode = connection.value("PRAGMA journal_mode");
      with_file.schema = static_cast<int>(count(connection, "PRAGMA user_version"));
    });
    if (outcome == Outcome::done) info = std::move(with_file);
    std::error_code no_file;
    const auto bytes = fs::file_size(user->path(), no_file);
    info.file_bytes = no_file ? 0 : static_cast<std::int64_t>(bytes);
    info.network_file_system = on_network_file_system(user->path());
    if (!no_file) info.why_not_private = why_not_private(user->path());
    info.why_not_writable = user->why_not_writable();
    info.writable = info.why_not_writable.empty();
    return info;
  });
}

std::vector<std::string> Cache::verify() {
  return impl_->enter([&](Layers& layers) {
    std::vector<std::string> problems;
    UserFile* user = layers.user();
    if (!user) return problems;
    const int recoveries = user->recoveries();
    std::vector<std::string> rows;
    const Outcome outcome = user->read([&](Connection& connection) {
      rows.clear();
      std::string first;
      {
        Query check = connection.query("PRAGMA quick_check(20)");
        while (check.next()) {
          const std::string line = check.bytes(0);
          if (line == "ok") continue;
          if (first.empty()) first = line;
          problems.push_back(line);
        }
      }
      if (!first.empty()) throw SqliteError(SQLITE_CORRUPT, first);
      rows = sweep(connection, false);
    });
    if (outcome == Outcome::failed) problems.push_back(user->failure());
    if (!rows.empty()) {
      const bool removed = user->write([](Connection& connection) { sweep(connection, true); }) == Outcome::done;
      for (const std::string& row : rows) problems.push_back(row + (removed ? "; removed" : "; cannot be removed"));
    }
    if (user->recoveries() != recoveries) problems.push_back("the damaged file was moved to " + user->last_aside().string());
    return problems;
  });
}

std::int64_t Cache::clear(const Filter& filter) {
  return impl_->enter([&](Layers& layers) {
    require_sqlite(layers);
    std::int64_t removed = 0;
    UserFile* user = layers.user();
    const auto fail = [&] { throw Error(ErrorCode::cache_failed, "cannot clear the cache: ", user->failure()); };
    if (user) {
      const Outcome present = user->read([](Connection&) {});
      if (present == Outcome::failed) fail();
      // Do not create a file only to clear it.
      if (present == Outcome::done &&
          user->write([&](Connection& connection) { removed = erase(connection, filter); }) != Outcome::done) {
        fail();
      }
      if (removed > 0) give_space_back(*user);
    }
    if (Connection* memory = layers.memory_if_used()) {
      try {
        removed += erase(*memory, filter);
      } catch (const SqliteError& error) {
        throw Error(ErrorCode::cache_failed, "cannot clear the cache: ", error.what());
      }
    }
    return removed;
  });
}

void Cache::export_to(const fs::path& to, bool with_binaries) {
  impl_->enter([&](Layers& layers) {
    require_sqlite(layers);
    std::error_code ignored;
    const fs::path target = fs::absolute(to);
    if (fs::exists(fs::symlink_status(target, ignored))) {
      throw Error(ErrorCode::cache_failed, "cannot export to '", to.string(), "': it exists; name a new file");
    }
    const fs::path unfinished = unfinished_name(target);
    try {
      copy_to_new_file(layers.user(), layers.memory_if_used(), unfinished, with_binaries);
      publish(unfinished, target);
    } catch (const std::exception& error) {
      fs::remove(unfinished, ignored);
      fs::remove(fs::path(unfinished) += "-journal", ignored);
      throw Error(ErrorCode::cache_failed, "cannot export to '", to.string(), "': ", error.what());
    }
  });
}

std::int64_t Cache::import_from(const fs::path& from) {
  return impl_->enter([&](Layers& layers) {
    require_sqlite(layers);
    const auto fail = [&](const std::string& why) {
      throw Error(ErrorCode::cache_failed, "cannot import '", from.string(), "': ", why);
    };
    const auto identity = file_identity(from);
    if (!identity) fail("there is no such file");
    if (!identity->regular) fail("it is not a regular file");
    UserFile* user = layers.user();
    if (user && file_identity(user->path()) == identity) fail("it is the cache itself");
    try {
      Connection source = Connection::open_file(from, Connection::Access::read_only, impl_->options.busy_timeout_ms);
      const SchemaCheck found = check_schema(source);
      if (found.state == SchemaCheck::State::empty) fail("it is empty");
      if (found.state == SchemaCheck::State::older)
        source = migrated_copy(source);
      else if (found.state != SchemaCheck::State::current)
        fail("it " + why_not_current(found));
      std::int64_t taken = 0;
      const std::string not_private = why_not_private(from);
      if (const std::string why = merge_into(layers, source, from.string(), not_private.empty(), taken); !why.empty())
        fail(why);
      if (!not_private.empty())
        layers.warnings.once("import " + from.string(),
                             "binaries of cache " + from.string() + " are not imported: " + not_private);
      return taken;
    } catch (const SqliteError& error) {
      fail(error.what());
    }
    return std::int64_t{0};
  });
}

std::int64_t Cache::import_records(const std::vector<TuningRecord>& records) {
  return impl_->enter([&](Layers& layers) {
    require_sqlite(layers);
    std::int64_t taken = 0;
    std::string why;
    try {
      Connection source = Connection::open_memory();
      migrate(source);
      {
        Transaction transaction(source);
        for (const TuningRecord& record : records) write_record(source, record, {});
        transaction.commit();
      }
      why = merge_into(layers, source, "the records", false, taken);
    } catch (const SqliteError& error) {
      why = error.what();
    }
    if (!why.empty()) throw Error(ErrorCode::cache_failed, "cannot import records: ", why);
    return taken;
  });
}

}  // namespace tunesmith
