#include "fleet/check.h"

#include <cstdio>

#include "fleet/lease.h"
#include "fleet/protocol/error.h"
#include "fleet/shared_values.h"
#include "tunesmith/error.h"

namespace tunesmith::fleet {
namespace {

using Verdict = Finding::Verdict;

constexpr Milliseconds check_limit{5000};

std::string ms_text(Deadline start) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f ms",
                std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  return text.data();
}

/// Returns the value of a line "name:value" of INFO.
std::string info_line(const std::string& info, const std::string& name) {
  const std::size_t at = info.find("\n" + name + ":");
  if (at == std::string::npos) return {};
  const std::size_t begin = at + name.size() + 2;
  return info.substr(begin, info.find_first_of("\r\n", begin) - begin);
}

class Examination {
 public:
  explicit Examination(RemoteUrl url) : url_(std::move(url)), values_(url_, read_credentials(url_)) {}

  void run(std::vector<Finding>& findings) {
    const auto add = [&](const char* what, Verdict verdict, std::string text) {
      findings.push_back({what, verdict, std::move(text)});
    };
    const Credentials& credentials = values_.credentials();
    if (!credentials.trust.required())
      add("keys", Verdict::good, "none: tunings are shared, binaries are compiled on each host");
    for (const std::string& key : credentials.trust.public_keys) add("trusted key", Verdict::good, key_id(key));
    if (credentials.signing) add("signing key", Verdict::good, key_id(credentials.signing->public_key()));
    if (!values_.may_write_tunings() && !url_.read_only)
      add("signing key", Verdict::warning, "none: this host writes nothing, because nobody would use it; say mode=ro");

    Deadline start = Clock::now();
    client_ = Client::open(url_, after(check_limit));
    const bool is_slow = Clock::now() - start > url_.connect;
    add("connection", is_slow ? Verdict::warning : Verdict::good,
        ms_text(start) + (is_slow ? ", more than connect_ms allows" : ""));
    start = Clock::now();
    client_->call({"PING"}, after(check_limit));
    add("round trip", Clock::now() - start > url_.record ? Verdict::warning : Verdict::good, ms_text(start));
    check_server(add);
    check_reading(add);
    if (!url_.read_only && values_.may_write_tunings()) check_writing(add);
    if (!url_.generation.empty()) check_generation(add);
  }

 private:
  template <typename Add>
  void check_server(const Add& add) {
    const std::vector<Reply> replies = client_->call_all({{"INFO", "server"}, {"INFO", "memory"}}, after(check_limit));
    if (replies[0].is_error()) {
      add("server", Verdict::good, "its user may not ask for INFO");
      return;
    }
    add("server", Verdict::good, "redis protocol " + info_line(replies[0].text, "redis_version"));
    const std::string policy = info_line(replies[1].text, "maxmemory_policy");
    const bool evicts_all = policy.starts_with("allkeys");
    if (!policy.empty())
      add("eviction", evicts_all ? Verdict::warning : Verdict::good,
          policy + (evicts_all ? ": evicts queues and leases, too; set maxmemory-policy volatile-lru" : ""));
  }

  template <typename Add>
  void check_reading(const Add& add) {
    client_->call({"HGET", values_.keys().prefix() + "t:check", "0,0"}, after(check_limit));
    client_->call({"GET", values_.keys().prefix() + "b:check"}, after(check_limit));
    add("reading", Verdict::good, "namespace '" + url_.name_space + "'");
  }

  template <typename Add>
  void check_writing(const Add& add) {
    const std::string key = values_.keys().prefix() + "check:" + new_token(), hash = key + ":hash";
    const Label label{Kind::job, url_.name_space, key};
    const std::string sealed = seal(label, "check", 0, values_.credentials().signing_key());
    client_->call({"SET", key, sealed, "EX", "10", "NX"}, after(check_limit));
    const auto opened = unseal(client_->call({"GET", key}, after(check_limit)).text, label, values_.credentials().trust);
    client_->call({"HSETNX", hash, "f", "v"}, after(check_limit));
    client_->call({"EXPIRE", hash, "10"}, after(check_limit));
    client_->evaluate("return 1", {key}, {}, after(check_limit));
    client_->call({"DEL", key, hash}, after(check_limit));
    if (std::holds_alternative<Value>(opened))
      add("writing", Verdict::good, values_.may_write_binaries() ? "signed" : "not signed");
    else
      add("writing", Verdict::failed, "what was written is " + std::string(name(std::get<Refusal>(opened))));
  }

  template <typename Add>
  void check_generation(const Add& add) {
    const Reply reply = client_->call({"GET", values_.keys().generation(url_.generation)}, after(check_limit));
    if (reply.is_nil()) {
      add("generation", Verdict::failed, "the server has no generation '" + url_.generation + "'");
      return;
    }
    const auto found = values_.open_generation(reply.text, url_.generation);
    if (const auto* generation = std::get_if<Generation>(&found))
      add("generation", Verdict::good,
          url_.generation + ": " + std::to_string(generation->tunings.size()) + " tunings, " +
              std::to_string(generation->binaries.size()) + " binaries");
    else
      add("generation", Verdict::failed,
          "'" + url_.generation + "' is " + std::string(name(std::get<Refusal>(found))) + " and is not used");
  }

  const RemoteUrl url_;
  const SharedValues values_;
  std::unique_ptr<Client> client_;
};

}  // namespace

std::vector<Finding> check_remote(const std::string& url) {
  std::vector<Finding> findings;
  const auto fail = [&](const char* what, const std::exception& error) {
    findings.push_back({what, Verdict::failed, error.what()});
  };
  try {
    RemoteUrl parsed = parse_remote_url(url);
    findings.push_back({"URL", Verdict::good, parsed.address()});
    Examination(std::move(parsed)).run(findings);
  } catch (const RemoteError& error) {
    fail("server", error);
  } catch (const Error& error) {
    fail(findings.empty() ? "URL" : "keys", error);
  }
  return findings;
}

}  // namespace tunesmith::fleet
