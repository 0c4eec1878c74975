// TLS over a socket, with OpenSSL 3. OpenSSL reads and writes memory buffers and the socket stays in our hands: OpenSSL's
// own socket calls know no deadline, and raise SIGPIPE.

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <vector>

#include "fleet/protocol/error.h"
#include "fleet/protocol/socket.h"
#include "fleet/signing.h"

namespace tunesmith::fleet {
namespace {

struct FreeTls {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* session) const { SSL_free(session); }
};

std::string openssl_reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "unknown reason";
  const char* text = ERR_reason_error_string(code);
  return text != nullptr ? text : "error " + std::to_string(code);
}

[[noreturn]] void fail(const std::string& what) { throw RemoteError(Failure::tls, what); }

class TlsStream final : public Stream {
 public:
  TlsStream(std::unique_ptr<Socket> socket, const RemoteUrl& url, Deadline deadline);

  void write(std::string_view bytes, Deadline deadline) override;
  std::size_t read(char* buffer, std::size_t size, Deadline deadline) override;

 private:
  /// Calls `operation`, which returns what an SSL function does, until it succeeds; moves bytes between socket and OpenSSL.
  template <typename Operation>
  int drive(const Operation& operation, Deadline deadline);
  void flush(Deadline deadline);
  std::string why_failed() const;

  std::unique_ptr<Socket> socket_;
  std::unique_ptr<SSL_CTX, FreeTls> context_;
  std::unique_ptr<SSL, FreeTls> session_;
  BIO* in_ = nullptr;   // owned by session_
  BIO* out_ = nullptr;  // owned by session_
};

TlsStream::TlsStream(std::unique_ptr<Socket> socket, const RemoteUrl& url, Deadline deadline) : socket_(std::move(socket)) {
  start_openssl();
  context_.reset(SSL_CTX_new(TLS_client_method()));
  if (!context_) fail("OpenSSL: " + openssl_reason());
  SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
  const bool has_roots = url.ca.empty() ? SSL_CTX_set_default_verify_paths(context_.get()) == 1
                                        : SSL_CTX_load_verify_locations(context_.get(), url.ca.c_str(), nullptr) == 1;
  if (!has_roots) fail("ca '" + url.ca.string() + "' cannot be read: " + openssl_reason());
  session_.reset(SSL_new(context_.get()));
  if (!session_) fail("OpenSSL: " + openssl_reason());
  in_ = BIO_new(BIO_s_mem());
  out_ = BIO_new(BIO_s_mem());
  SSL_set_bio(session_.get(), in_, out_);
  X509_VERIFY_PARAM* const checks = SSL_get0_param(session_.get());
  // A literal address is compared with the certificate's addresses, a name with its names.
  if (X509_VERIFY_PARAM_set1_ip_asc(checks, url.host.c_str()) != 1) {
    ERR_clear_error();
    if (X509_VERIFY_PARAM_set1_host(checks, url.host.c_str(), 0) != 1) fail("host '" + url.host + "' cannot be checked");
    SSL_set_tlsext_host_name(session_.get(), url.host.c_str());
  }
  SSL_set_connect_state(session_.get());
  drive([&] { return SSL_do_handshake(session_.get()); }, deadline);
}

std::string TlsStream::why_failed() const {
  const long verified = SSL_get_verify_result(session_.get());
  if (verified == X509_V_OK) return "TLS failed: " + openssl_reason();
  ERR_clear_error();
  return std::string("the server's certificate is rejected: ") + X509_verify_cert_error_string(verified);
}

void TlsStream::flush(Deadline deadline) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out_, &bytes);
  if (size <= 0) return;
  socket_->write({bytes, static_cast<std::size_t>(size)}, deadline);
  BIO_reset(out_);
}

template <typename Operation>
int TlsStream::drive(const Operation& operation, Deadline deadline) {
  std::array<char, 16384> buffer;
  while (true) {
    ERR_clear_error();
    const int result = operation();
    const int state = result > 0 ? SSL_ERROR_NONE : SSL_get_error(session_.get(), result);
    if (state == SSL_ERROR_SSL) {
      const std::string why = why_failed();
      try {
        flush(deadline);              // the alert
      } catch (const RemoteError&) {  // the first reason matters
      }
      fail(why);
    }
    flush(deadline);
    if (result > 0) return result;
    if (state == SSL_ERROR_ZERO_RETURN) throw RemoteError(Failure::closed, "the server closed the connection");
    if (state != SSL_ERROR_WANT_READ) fail(why_failed());
    const std::size_t size = socket_->read(buffer.data(), buffer.size(), deadline);
    BIO_write(in_, buffer.data(), static_cast<int>(size));
  }
}

void TlsStream::write(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const int part = static_cast<int>(std::min<std::size_t>(bytes.size(), 1 << 20));
    bytes.remove_prefix(drive([&] { return SSL_write(session_.get(), bytes.data(), part); }, deadline));
  }
}

std::size_t TlsStream::read(char* buffer, std::size_t size, Deadline deadline) {
  const int part = static_cast<int>(std::min<std::size_t>(size, 1 << 20));
  return drive([&] { return SSL_read(session_.get(), buffer, part); }, deadline);
}

}  // namespace

std::unique_ptr<Stream> Stream::open(const RemoteUrl& url, Deadline deadline) {
  const std::vector<SocketAddress> addresses = resolve(url, deadline);
  for (std::size_t i = 0; i < addresses.size(); ++i) try {
      std::unique_ptr<Socket> socket = Socket::connect(addresses[i], deadline);
      if (url.transport != RemoteUrl::Transport::tls) return socket;
      return std::make_unique<TlsStream>(std::move(socket), url, deadline);
    } catch (const RemoteError& error) {
      // The last address, or one that answered, decides.
      if (i + 1 == addresses.size() || error.failure() != Failure::connect) throw;
    }
  throw RemoteError(Failure::resolve, "'" + url.host + "' has no address");
}

}  // namespace tunesmith::fleet
