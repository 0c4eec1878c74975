#include "cache/system_file.h"

#include <string>

#include "cache/file_system.h"
#include "cache/schema.h"

namespace tunesmith {

bool SystemFile::read(const std::function<void(Connection&)>& work) {
  if (!why_ignored_.empty()) return false;
  try {
    if (!connection_) open();
    if (!connection_) return false;
    work(*connection_);
    return true;
  } catch (const SqliteError& error) {
    disable(error.what());
    return false;
  }
}

void SystemFile::open() {
  const auto identity = file_identity(file_);
  if (!identity) return disable("there is no such file");
  if (!identity->regular) return disable("it is not a regular file");
  Connection connection = Connection::open_immutable(file_);
  connection.execute("PRAGMA mmap_size=0; PRAGMA cell_size_check=ON;");
  const SchemaCheck found = check_schema(connection);
  switch (found.state) {
    case SchemaCheck::State::current: connection_.emplace(std::move(connection)); return;
    case SchemaCheck::State::older: connection_.emplace(migrated_copy(connection)); return;
    case SchemaCheck::State::empty: return disable("it is empty");
    case SchemaCheck::State::foreign:
    case SchemaCheck::State::damaged:
    case SchemaCheck::State::newer: return disable("it " + why_not_current(found));
  }
}

void SystemFile::disable(const std::string& why) {
  connection_.reset();
  why_ignored_ = why;
  warnings_->once("system " + file_.string(), "system cache " + file_.string() + " is ignored: " + why);
}

}  // namespace tunesmith
