// For builds without hiredis, OpenSSL and zlib: functions that need them report it.

#include "fleet/check.h"
#include "fleet/protocol/transfer.h"
#include "fleet/queue.h"
#include "fleet/remote.h"
#include "fleet/remote_url.h"
#include "fleet/signing.h"
#include "tunesmith/error.h"

namespace tunesmith::fleet {
namespace {

constexpr const char* why = "this build of Tunesmith has no remote cache; it was built without hiredis, OpenSSL or zlib";

[[noreturn]] void fail() { throw Error(ErrorCode::unsupported, why); }

}  // namespace

bool is_built() noexcept { return false; }

std::shared_ptr<RemoteStore> open_remote(const RemoteOptions& options) {
  parse_remote_url(options.url);  // every build reports a mistake
  if (options.warn) options.warn(std::string("the remote cache is not used: ") + why);
  return nullptr;
}

std::vector<Finding> check_remote(const std::string&) { return {{"build", Finding::Verdict::failed, why}}; }

Transferred push(const RemoteUrl&, Cache&, const PushOptions&) { fail(); }
Transferred pull(const RemoteUrl&, Cache&) { fail(); }

SigningKey SigningKey::generate() { fail(); }
void SigningKey::write(const std::filesystem::path&) const { fail(); }
std::string trust_line(const std::string&, const std::string&) { fail(); }
std::vector<std::string> read_trust(const std::filesystem::path&) { fail(); }
std::string key_id(std::string_view) { fail(); }

struct Queue::State {};
Queue::Queue(const RemoteUrl&, std::string) { fail(); }
Queue::~Queue() = default;
Queue::Queue(Queue&&) noexcept = default;
std::string Queue::add(const std::string&) { fail(); }
JobState Queue::state(const std::string&) { fail(); }
std::optional<Job> Queue::take(const std::string&, Milliseconds, Milliseconds) { fail(); }
bool Queue::renew(const Job&, bool) { fail(); }
void Queue::give_back(const Job&) { fail(); }
void Queue::finish(const Job&, const JobResult&) { fail(); }
std::int64_t Queue::size() { fail(); }
bool Queue::is_signed() const { fail(); }
std::vector<Queue::DeadLetter> Queue::dead_letters() { fail(); }

}  // namespace tunesmith::fleet
