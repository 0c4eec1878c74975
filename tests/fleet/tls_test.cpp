// TLS on the loopback interface, with certificates of the test's own.

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>

#include "fleet/protocol/error.h"
#include "fleet/shared_values.h"
#include "tests/fleet/certificates.h"
#include "tests/fleet/samples.h"
#include "tests/fleet/server.h"

namespace tunesmith::fleet {
namespace {

double elapsed_ms(Deadline start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

class TlsTest : public FleetTest {
 protected:
  TlsTest() : port_(free_port()) {
    write_certificate(path("server"));
    write_certificate(path("other"));
    write_certificate(path("elsewhere"), "127.0.0.99");
  }
  void start_tls(const std::string& certificate = "server") {
    start({"--tls-port", std::to_string(port_), "--tls-cert-file", path(certificate + ".crt"), "--tls-key-file",
           path(certificate + ".key"), "--tls-auth-clients", "no", "--bind", "127.0.0.1"});
  }
  RemoteUrl tls_url(const std::string& host, const std::string& ca) const {
    return parse_remote_url("rediss://" + host + ":" + std::to_string(port_) + "?ca=" + path(ca + ".crt").string());
  }
  std::string rejection(const RemoteUrl& url) const {
    try {
      Client::open(url, after(Milliseconds(2000)));
    } catch (const RemoteError& error) {
      EXPECT_EQ(error.failure(), Failure::tls);
      return error.what();
    }
    return "accepted";
  }

 private:
  const int port_;
};

TEST_F(TlsTest, CarriesLargeValues) {
  TUNESMITH_NEEDS_SERVER();
  start_tls();
  for (const char* host : {"127.0.0.1", "localhost"}) {
    const auto client = Client::open(tls_url(host, "server"), after(Milliseconds(2000)));
    const std::string value(5 << 20, 'v');
    const Deadline deadline = after(Milliseconds(5000));
    EXPECT_EQ(client->call({"SET", "k", value}, deadline).text, "OK");
    EXPECT_EQ(client->call({"GET", "k"}, deadline).text, value);
  }
}

TEST_F(TlsTest, WrongCertificatesAreRejected) {
  TUNESMITH_NEEDS_SERVER();
  start_tls();
  EXPECT_NE(rejection(tls_url("127.0.0.1", "other")).find("certificate is rejected"), std::string::npos);
  EXPECT_NE(rejection(tls_url("127.0.0.1", "missing")).find("cannot be read"), std::string::npos);
  stop(SIGKILL);
  start_tls("elsewhere");
  EXPECT_NE(rejection(tls_url("127.0.0.1", "elsewhere")).find("IP address mismatch"), std::string::npos);
}

TEST_F(TlsTest, PlainServersAreRejected) {
  TUNESMITH_NEEDS_SERVER();
  const int port = free_port();
  start({"--port", std::to_string(port), "--bind", "127.0.0.1"});
  const RemoteUrl url =
      parse_remote_url("rediss://127.0.0.1:" + std::to_string(port) + "?ca=" + path("server.crt").string());
  EXPECT_THROW(Client::open(url, after(Milliseconds(500))), RemoteError);
}

// The targets of a local network, on the loopback interface: a hit of 60 KB within 2 ms (99th percentile), a cold connection
// within 10 ms. Other programs on the same cores make most samples slower, so the bounds are five times as high.
TEST_F(TlsTest, HitsAndHandshakesAreFast) {
  TUNESMITH_NEEDS_SERVER();
  start_tls();
  make_key("key");
  const RemoteUrl url = tls_url("127.0.0.1", "server");
  RemoteUrl signing = url;
  signing.sign = path("key");
  const SharedValues values(url, read_credentials(signing));
  const std::string key = values.keys().binary("f1");
  std::vector<double> opened, hits;
  for (int i = 0; i < 20; ++i) {
    const Deadline start = Clock::now();
    const auto client = Client::open(url, after(Milliseconds(2000)));
    opened.push_back(elapsed_ms(start));
    if (i == 0) values.write(*client, sample_binary("f1", 60'000), Overwrite::always, after(Milliseconds(2000)));
  }
  const auto client = Client::open(url, after(Milliseconds(2000)));
  for (int i = 0; i < 500; ++i) {
    const Deadline start = Clock::now();
    const Reply reply = client->call({"GET", key}, after(Milliseconds(2000)));
    const auto found = values.open_binary(reply.text, "f1");
    hits.push_back(elapsed_ms(start));
    ASSERT_TRUE(std::holds_alternative<BinaryRecord>(found));
  }
  std::ranges::sort(opened);
  std::ranges::sort(hits);
  std::printf("loopback, TLS: cold connection %.2f ms (worst of 20: %.2f); signed hit of 60 KB %.2f ms, p99 %.2f ms\n",
              opened[10], opened[19], hits[250], hits[494]);
  EXPECT_LE(opened[2], 50);
  EXPECT_LE(hits[50], 10);
}

}  // namespace
}  // namespace tunesmith::fleet
