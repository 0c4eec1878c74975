#include "fleet/lease.h"

#include <array>
#include <cstdio>
#include <random>

namespace tunesmith::fleet {
namespace {

const std::string renew_script =
    "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('PEXPIRE',KEYS[1],ARGV[2]) end return 0";
const std::string release_script =
    "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0";

std::string lease_ms() { return std::to_string(lease_time.count()); }

}  // namespace

std::string new_token() {
  std::random_device random;
  std::array<char, 33> text{};
  for (std::size_t i = 0; i < 4; ++i) std::snprintf(text.data() + 8 * i, 9, "%08x", random());
  return text.data();
}

bool take_lease(Client& client, const std::string& name, const std::string& token, Deadline deadline) {
  return !client.call({"SET", name, token, "NX", "PX", lease_ms()}, deadline).is_nil();
}

bool renew_lease(Client& client, const std::string& name, const std::string& token, Deadline deadline) {
  return client.evaluate(renew_script, {name}, {token, lease_ms()}, deadline).integer == 1;
}

void release_lease(Client& client, const std::string& name, const std::string& token, Deadline deadline) {
  client.evaluate(release_script, {name}, {token}, deadline);
}

RenewedLease::RenewedLease(Writer& writer, std::string name, std::string token, double limit_s)
    : writer_(writer), name_(std::move(name)), token_(std::move(token)) {
  const Deadline until = after(Milliseconds(static_cast<std::int64_t>(1000 * limit_s)));
  renewal_ = writer_.repeat(lease_renewal, [key = name_, mine = token_, until](Client& client, Deadline deadline) {
    if (Clock::now() < until) renew_lease(client, key, mine, deadline);
  });
}

RenewedLease::~RenewedLease() {
  writer_.stop_repeating(renewal_);
  // After the writes of the tuning that it was for: whoever takes the lease next finds the record.
  writer_.add(
      [key = name_, mine = token_](Client& client, Deadline deadline) { release_lease(client, key, mine, deadline); }, 128);
}

}  // namespace tunesmith::fleet
