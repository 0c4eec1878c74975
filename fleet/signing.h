#pragma once
// SHA-256 and Ed25519: who wrote a value. By OpenSSL 3.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tunesmith::fleet {

inline constexpr std::size_t digest_bytes = 32, public_key_bytes = 32, signature_bytes = 64;

/// Returns the 32 bytes of the digest.
std::string sha256(std::string_view bytes);

/// A private key. Copies share it; thread-safe.
class SigningKey {
 public:
  static SigningKey generate();
  /// Reads an unencrypted PEM file. Throws Error(io), also for a file that others can read or write.
  static SigningKey read(const std::filesystem::path& file);

  /// Writes a PEM file for this user only. Throws Error(io), also if the file exists.
  void write(const std::filesystem::path& file) const;
  const std::string& public_key() const { return public_key_; }
  std::string sign(std::string_view bytes) const;

 private:
  explicit SigningKey(std::shared_ptr<void> key);

  std::shared_ptr<void> key_;
  std::string public_key_;
};

/// Reports whether `signature` is of these bytes by this public key.
bool is_signed(std::string_view bytes, std::string_view signature, std::string_view public_key);

/// The line of a trust file for a public key: "ed25519 BASE64 NAME".
std::string trust_line(const std::string& public_key, const std::string& name);
/// Reads the public keys of a trust file: a trust_line() in each line; empty lines and those that start with '#' are
/// ignored. Throws Error(io) that names the line.
std::vector<std::string> read_trust(const std::filesystem::path& file);
/// Returns the first 16 hex digits of the key's digest, for people.
std::string key_id(std::string_view public_key);

}  // namespace tunesmith::fleet
