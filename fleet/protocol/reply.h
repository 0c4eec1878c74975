#pragma once
// One reply of the server.

#include <cstdint>
#include <string>
#include <vector>

namespace tunesmith::fleet {

struct Reply {
  enum class Type : std::uint8_t { nil, status, error, integer, string, array };
  Type type = Type::nil;
  std::int64_t integer = 0;
  std::string text;  ///< of a status, an error or a string
  std::vector<Reply> elements;

  bool is_nil() const { return type == Type::nil; }
  bool is_error() const { return type == Type::error; }
};

}  // namespace tunesmith::fleet
