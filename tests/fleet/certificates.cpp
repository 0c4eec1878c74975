#include "tests/fleet/certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>

namespace tunesmith::fleet {
namespace {

void add_extension(X509* certificate, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()), X509_EXTENSION_free);
  X509_add_ext(certificate, extension.get(), -1);
}

}  // namespace

void write_certificate(const std::filesystem::path& name, const char* address) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), subject);
  X509_set_pubkey(certificate.get(), key.get());
  add_extension(certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
  add_extension(certificate.get(), NID_subject_alt_name, std::string("IP:") + address + ",DNS:localhost");
  X509_sign(certificate.get(), key.get(), EVP_sha256());

  std::FILE* file = std::fopen((name.string() + ".crt").c_str(), "w");
  PEM_write_X509(file, certificate.get());
  std::fclose(file);
  file = std::fopen((name.string() + ".key").c_str(), "w");
  PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
}

}  // namespace tunesmith::fleet
