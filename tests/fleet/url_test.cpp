// The URL that configures the remote cache.

#include <gtest/gtest.h>

#include "fleet/remote_url.h"
#include "tunesmith/error.h"

namespace tunesmith::fleet {
namespace {

TEST(RemoteUrl, ReadsEveryPart) {
  const RemoteUrl url = parse_remote_url(
      "rediss://reader@cache.example:6380/3?ns=prod&mode=ro&generation=prod-17&ca=ca.pem&password_file=s%20e&trust=k.pub"
      "&get_ms=40&binary_ms=200&connect_ms=90&ttl_days=30");
  EXPECT_EQ(url.transport, RemoteUrl::Transport::tls);
  EXPECT_EQ(url.host, "cache.example");
  EXPECT_EQ(url.port, 6380);
  EXPECT_EQ(url.user, "reader");
  EXPECT_EQ(url.database, 3);
  EXPECT_EQ(url.name_space, "prod");
  EXPECT_TRUE(url.read_only);
  EXPECT_EQ(url.generation, "prod-17");
  EXPECT_EQ(url.ca, "ca.pem");
  EXPECT_EQ(url.password_file, "s e");
  EXPECT_EQ(url.trust, "k.pub");
  EXPECT_EQ(url.record.count(), 40);
  EXPECT_EQ(url.binary.count(), 200);
  EXPECT_EQ(url.connect.count(), 90);
  EXPECT_EQ(url.ttl_days, 30);
  EXPECT_EQ(url.address(), "rediss://cache.example:6380");
}

TEST(RemoteUrl, HasDefaults) {
  const RemoteUrl url = parse_remote_url("redis://cache");
  EXPECT_EQ(url.transport, RemoteUrl::Transport::tcp);
  EXPECT_EQ(url.port, 6379);
  EXPECT_EQ(url.name_space, "default");
  EXPECT_FALSE(url.read_only);
  EXPECT_FALSE(url.has_keys());
  EXPECT_EQ(url.connect.count(), 100);
  EXPECT_EQ(url.record.count(), 50);
  EXPECT_EQ(url.binary.count(), 250);
}

TEST(RemoteUrl, ReadsSocketsAndAddresses) {
  EXPECT_EQ(parse_remote_url("redis+unix:/run/redis.sock?ns=a").socket, "/run/redis.sock");
  EXPECT_EQ(parse_remote_url("redis+unix:///run/redis.sock").socket, "/run/redis.sock");
  const RemoteUrl six = parse_remote_url("redis://[::1]:7000/2");
  EXPECT_EQ(six.host, "::1");
  EXPECT_EQ(six.port, 7000);
  EXPECT_EQ(six.database, 2);
  EXPECT_EQ(six.address(), "redis://[::1]:7000");
}

TEST(RemoteUrl, NamesTheMistake) {
  const std::vector<std::pair<std::string, std::string>> mistakes{
      {"", "scheme is ''"},
      {"http://cache", "scheme is 'http'; allowed: redis://, rediss://, redis+unix:"},
      {"redis://", "the host is missing"},
      {"redis://cache:0", "port is '0'; allowed: 1 to 65535"},
      {"redis://cache:abc", "port is 'abc'"},
      {"redis://[::1", "expected ']'"},
      {"redis://cache/x", "database is 'x'"},
      {"redis://user:secret@cache", "passwords are read from a file"},
      {"redis://user@cache", "user is 'user', which needs password_file=FILE"},
      {"redis+unix:relative", "expected an absolute path"},
      {"redis://cache?mode=write", "mode is 'write'; allowed: ro, rw"},
      {"redis://cache?ns=a%20b", "ns is 'a%20b'"},
      {"redis://cache?ns=", "ns is ''"},
      {"redis://cache?nss=a", "option is 'nss=a'; expected NAME=VALUE with one of binary_ms, ca"},
      {"redis://cache?ns", "option is 'ns'"},
      {"redis://cache?ns=a&ns=b", "option ns is given twice"},
      {"redis://cache?get_ms=0", "get_ms is '0'; allowed: 1 to 60000"},
      {"redis://cache?ca=x", "ca needs rediss://"},
      {"redis://cache?trust=", "trust is empty"},
      {"redis://cache?trust=%zz", "two hex digits"},
      {"redis://cache?generation=g", "generation is 'g', which needs trust=FILE"},
      {"redis://cache?mode=ro&sign=k", "sign needs mode=rw"},
  };
  for (const auto& [text, part] : mistakes) try {
      parse_remote_url(text);
      ADD_FAILURE() << text << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << text;
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << text << ": " << error.what();
      EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos);
    }
}

}  // namespace
}  // namespace tunesmith::fleet
