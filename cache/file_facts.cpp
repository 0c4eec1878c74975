#include "cache/file_facts.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "cache/file_system.h"
#include "cache/schema.h"

namespace tunesmith {
namespace {

using State = CacheFileFacts::State;

State state_of(SchemaCheck::State schema) {
  switch (schema) {
    case SchemaCheck::State::empty: return State::absent;
    case SchemaCheck::State::current: return State::current;
    case SchemaCheck::State::older: return State::older;
    case SchemaCheck::State::newer: return State::newer;
    case SchemaCheck::State::foreign: return State::foreign;
    case SchemaCheck::State::damaged: break;
  }
  return State::damaged;
}

void examine(CacheFileFacts& facts) {
  const auto identity = file_identity(facts.file);
  if (!identity) return;
  if (!identity->regular) {
    facts.state = State::not_regular;
    facts.reason = "is not a regular file";
  } else if (access(facts.file.c_str(), R_OK) != 0) {
    facts.state = State::unreadable;
    facts.reason = "cannot be read: " + std::generic_category().message(errno);
  } else {
    Connection connection = Connection::open_file(facts.file, Connection::Access::read_only, 1000);
    const SchemaCheck found = check_schema(connection);
    facts.state = state_of(found.state);
    facts.reason = why_not_current(found);
    const bool has_version = facts.state == State::current || facts.state == State::older || facts.state == State::newer;
    facts.schema = has_version ? static_cast<int>(found.version) : 0;
  }
}

}  // namespace

CacheFileFacts examine_cache_file(const std::filesystem::path& file) noexcept {
  CacheFileFacts facts;
  try {
    facts.file = file;
    examine(facts);
  } catch (const SqliteError& error) {
    // A killed process may have left a journal, which only a writer plays back; another process may be writing.
    const bool in_use = error.primary() != SQLITE_NOTADB && error.primary() != SQLITE_CORRUPT;
    facts.state = in_use ? State::current : State::damaged;
    if (!in_use) facts.reason = std::string("is no cache: ") + error.what();
  } catch (const std::exception& error) {
    facts.state = State::unreadable;
    facts.reason = std::string("cannot be read: ") + error.what();
  }
  return facts;
}

}  // namespace tunesmith
