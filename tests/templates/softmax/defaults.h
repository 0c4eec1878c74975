#pragma once
// What tests of default configurations share.

#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "tests/support/cases.h"

namespace tunesmith::test {

/// Returns the device whose defaults are compared.
inline DeviceInfo h100() { return generic_device(parse_arch("sm_90a")); }

/// Returns the text of the default for one width and, below, of that for its bucket; empty if there is none.
inline std::string default_of(std::string_view op, const std::string& fields) {
  return find_op(op).parse(normalized(op, fields))->default_config(h100()).text();
}

inline std::string default_of_bucket(std::string_view op, const std::string& fields) {
  const std::optional<Config> config = find_op(op).parse(normalized(op, fields))->capacity_config(h100());
  return config ? config->text() : "";
}

/// How the default of a problem begins.
struct Expectation {
  const char *op, *fields;
  std::string config;
};

/// Expects configurations that begin with these texts. `rows` precedes the fields of each.
inline void expect(std::string (*config_of)(std::string_view, const std::string&), const std::string& rows,
                   std::initializer_list<Expectation> expectations) {
  for (const auto& [op, fields, config] : expectations) {
    const std::string found = config_of(op, rows + fields);
    EXPECT_TRUE(found.starts_with(config)) << op << " " << fields << ": " << found;
  }
}

}  // namespace tunesmith::test
