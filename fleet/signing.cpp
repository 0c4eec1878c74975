#include "fleet/signing.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "tunesmith/error.h"

namespace tunesmith::fleet {
namespace {

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  void operator()(BIO* bio) const { BIO_free(bio); }
};
template <typename Type>
using Owned = std::unique_ptr<Type, Free>;

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

[[noreturn]] void fail(const char* what) { throw Error(ErrorCode::io, "OpenSSL failed to ", what); }

std::string reason() { return std::generic_category().message(errno); }

std::string hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::string base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int size =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes_of(bytes), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

/// Decodes a public key; empty if it is not one.
std::string key_from_base64(const std::string& text) {
  constexpr std::size_t encoded = 44;  // 32 bytes and one '='
  if (text.size() != encoded || !text.ends_with('=')) return {};
  std::array<unsigned char, 33> bytes{};
  if (EVP_DecodeBlock(bytes.data(), bytes_of(text), static_cast<int>(text.size())) != static_cast<int>(bytes.size()))
    return {};
  return {reinterpret_cast<const char*>(bytes.data()), public_key_bytes};
}

}  // namespace

void start_openssl() {
  static const int started = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  if (started != 1) fail("start");
}

std::string sha256(std::string_view bytes) {
  start_openssl();
  std::string digest(digest_bytes, '\0');
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), &size, EVP_sha256(),
                 nullptr) != 1)
    fail("compute a digest");
  return digest;
}

SigningKey::SigningKey(std::shared_ptr<void> key) : key_(std::move(key)), public_key_(public_key_bytes, '\0') {
  std::size_t size = public_key_.size();
  if (EVP_PKEY_get_raw_public_key(static_cast<EVP_PKEY*>(key_.get()), reinterpret_cast<unsigned char*>(public_key_.data()),
                                  &size) != 1)
    fail("read a public key");
}

SigningKey SigningKey::generate() {
  start_openssl();
  const Owned<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new_id(EVP_PKEY_ED25519, nullptr));
  EVP_PKEY* key = nullptr;
  if (!context || EVP_PKEY_keygen_init(context.get()) != 1 || EVP_PKEY_keygen(context.get(), &key) != 1) fail("make a key");
  return SigningKey(std::shared_ptr<void>(key, [](void* made) { EVP_PKEY_free(static_cast<EVP_PKEY*>(made)); }));
}

SigningKey SigningKey::read(const std::filesystem::path& file) {
  start_openssl();
  struct stat facts {};
  std::ifstream stream(file);
  if (!stream || stat(file.c_str(), &facts) != 0)
    throw Error(ErrorCode::io, "private key '", file.string(), "' cannot be read: ", reason());
  // A group may read the key if root, who set that up, owns the file: secrets of Kubernetes for users other than root.
  const mode_t forbidden = facts.st_uid == 0 ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO;
  if ((facts.st_mode & forbidden) != 0)
    throw Error(ErrorCode::io, "private key '", file.string(), "' can be accessed by others; run: chmod 600 ",
                file.string());
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const Owned<BIO> bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  // The callback gives no password, so that OpenSSL does not ask for one.
  EVP_PKEY* key = PEM_read_bio_PrivateKey(
      bio.get(), nullptr, [](char*, int, int, void*) { return 0; }, nullptr);
  if (key == nullptr || EVP_PKEY_get_base_id(key) != EVP_PKEY_ED25519) {
    EVP_PKEY_free(key);
    throw Error(ErrorCode::io, "'", file.string(),
                "' is not an unencrypted Ed25519 key; `tunesmith cache keys new` writes one");
  }
  return SigningKey(std::shared_ptr<void>(key, [](void* made) { EVP_PKEY_free(static_cast<EVP_PKEY*>(made)); }));
}

void SigningKey::write(const std::filesystem::path& file) const {
  const Owned<BIO> bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PrivateKey(bio.get(), static_cast<EVP_PKEY*>(key_.get()), nullptr, nullptr, 0, nullptr, nullptr) != 1)
    fail("write a key");
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) throw Error(ErrorCode::io, "'", file.string(), "' cannot be written: ", reason());
  const bool is_written = ::write(descriptor, text, static_cast<std::size_t>(size)) == size;
  if (close(descriptor) != 0 || !is_written)
    throw Error(ErrorCode::io, "'", file.string(), "' cannot be written: ", reason());
}

std::string SigningKey::sign(std::string_view bytes) const {
  const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  std::string signature(signature_bytes, '\0');
  std::size_t size = signature.size();
  if (!context || EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, static_cast<EVP_PKEY*>(key_.get())) != 1 ||
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, bytes_of(bytes),
                     bytes.size()) != 1)
    fail("sign");
  return signature;
}

bool is_signed(std::string_view bytes, std::string_view signature, std::string_view public_key) {
  if (signature.size() != signature_bytes || public_key.size() != public_key_bytes) return false;
  const Owned<EVP_PKEY> key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes_of(public_key), public_key.size()));
  const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  return key && context && EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(bytes), bytes.size()) == 1;
}

std::string trust_line(const std::string& public_key, const std::string& name) {
  return "ed25519 " + base64(public_key) + (name.empty() ? "" : " " + name);
}

std::vector<std::string> read_trust(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) throw Error(ErrorCode::io, "trust '", file.string(), "' cannot be read: ", reason());
  std::vector<std::string> keys;
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    std::istringstream words(line);
    std::string kind, encoded;
    words >> kind >> encoded;
    if (kind.empty() || kind.starts_with('#')) continue;
    std::string key = key_from_base64(encoded);
    if (kind != "ed25519" || key.empty())
      throw Error(ErrorCode::io, file.string(), ":", number,
                  ": expected 'ed25519 KEY NAME', as `tunesmith cache keys new` writes it");
    keys.push_back(std::move(key));
  }
  if (keys.empty()) throw Error(ErrorCode::io, "trust '", file.string(), "' has no keys");
  return keys;
}

std::string key_id(std::string_view public_key) { return hex(sha256(public_key)).substr(0, 16); }

}  // namespace tunesmith::fleet
