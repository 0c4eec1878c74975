#pragma once
// Certificates for tests of TLS.

#include <filesystem>

namespace tunesmith::fleet {

/// Writes NAME.crt and NAME.key: a certificate that signs itself, for a server at `address`.
void write_certificate(const std::filesystem::path& name, const char* address = "127.0.0.1");

}  // namespace tunesmith::fleet
