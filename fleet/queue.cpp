#include "fleet/queue.h"

#include <unistd.h>

#include <map>

#include "core/hash.h"
#include "fleet/protocol/bytes.h"
#include "fleet/protocol/error.h"
#include "fleet/shared_values.h"
#include "tunesmith/error.h"

namespace tunesmith::fleet {

/// An entry of the stream.
struct QueueEntry {
  std::string entry_id, job_id, value;
};

/// An entry that this worker has taken.
struct TakenEntry {
  QueueEntry entry;
  std::string worker;
};

namespace {

constexpr Milliseconds step_limit{5000};
const std::string group = "workers";
const std::string state_ttl_s = "604800";  // a week: longer than anybody waits
constexpr std::size_t max_dead = 1000;

/// Changes the claim of worker ARGV[3] on the entry ARGV[2]: it was idle for ARGV[4] ms and is delivered ARGV[5] times.
/// Returns 0 if the worker has lost it. With KEYS[2], the job waits then.
const std::string claim_again_script =
    "local p=redis.call('XPENDING',KEYS[1],ARGV[1],ARGV[2],ARGV[2],1) if #p==0 or p[1][2]~=ARGV[3] then return 0 end "
    "redis.call('XCLAIM',KEYS[1],ARGV[1],ARGV[3],0,ARGV[2],'IDLE',ARGV[4],'RETRYCOUNT',ARGV[5],'JUSTID') "
    "if KEYS[2] then redis.call('SET',KEYS[2],'waiting','EX',ARGV[6]) end return 1";
// Longer than any patience, so that the next worker takes the job.
const std::string idle_for_all_ms = "864000000";

std::optional<QueueEntry> parse_entry(const Reply& reply) {
  if (reply.elements.size() != 2 || reply.elements[1].elements.size() < 4) return std::nullopt;
  QueueEntry entry{reply.elements[0].text, {}, {}};
  const std::vector<Reply>& fields = reply.elements[1].elements;
  for (std::size_t i = 0; i + 1 < fields.size(); i += 2) {
    if (fields[i].text == "id") entry.job_id = fields[i + 1].text;
    if (fields[i].text == "value") entry.value = fields[i + 1].text;
  }
  return entry;
}

}  // namespace

struct Queue::State {
  State(const RemoteUrl& remote, std::string queue)
      : url(remote),
        values(remote, read_credentials(remote)),
        stream(values.keys().queue(queue)),
        dead(values.keys().dead(queue)) {
    if (url.read_only) throw Error(ErrorCode::invalid_argument, "the URL says mode=ro; a queue needs mode=rw");
    if (!values.may_write_tunings())
      throw Error(ErrorCode::invalid_argument, "the URL has trust but no sign; a queue needs both, or none");
  }

  template <typename Work>
  auto with_server(const Work& work) {
    try {
      if (!client) {
        client = Client::open(url, after(step_limit));
        const auto made = client->call_all({{"XGROUP", "CREATE", stream, group, "0", "MKSTREAM"}}, after(step_limit));
        if (made.front().is_error() && !made.front().text.starts_with("BUSYGROUP")) accepted(made.front());
      }
      return work(*client);
    } catch (const RemoteError& error) {
      client.reset();
      throw Error(ErrorCode::io, url.address(), ": ", error.what());
    }
  }

  Label label(const std::string& id) const { return {Kind::job, url.name_space, id}; }
  void set_state(Client& to, const std::string& id, const std::string& text) const {
    to.call({"SET", values.keys().job(id), text, "EX", state_ttl_s}, after(step_limit));
  }
  void remove(Client& from, const std::string& entry_id) const {
    from.call({"XACK", stream, group, entry_id}, after(step_limit));
    from.call({"XDEL", stream, entry_id}, after(step_limit));
  }
  void bury(Client& from, const QueueEntry& entry, const std::string& payload, const std::string& error) const {
    ByteWriter letter;
    letter.add(entry.job_id).add(payload).add(error);
    from.call({"LPUSH", dead, letter.bytes()}, after(step_limit));
    from.call({"LTRIM", dead, "0", std::to_string(max_dead - 1)}, after(step_limit));
    set_state(from, entry.job_id, "dead " + error);
    remove(from, entry.entry_id);
  }
  std::optional<QueueEntry> claim(Client& from, const std::string& worker, Milliseconds patience);
  std::optional<QueueEntry> read(Client& from, const std::string& worker, Milliseconds wait) const;

  const RemoteUrl url;
  const SharedValues values;
  const std::string stream, dead;
  std::unique_ptr<Client> client;
  std::map<std::string, TakenEntry> taken;  // by job id
};

Queue::Queue(const RemoteUrl& url, std::string name) : state_(std::make_unique<State>(url, std::move(name))) {}
Queue::~Queue() = default;
Queue::Queue(Queue&&) noexcept = default;

bool Queue::is_signed() const { return state_->values.may_write_binaries(); }

std::string Queue::add(const std::string& payload) {
  const std::string id = hash_hex(state_->stream + "\n" + payload), key = state_->values.keys().job(id);
  const std::string sealed = seal(state_->label(id), payload, unix_seconds(), state_->values.credentials().signing_key());
  state_->with_server([&](Client& client) {
    // One script, so that two hosts add a job once.
    client.evaluate(
        "local s=redis.call('GET',KEYS[1]) if s and (s=='waiting' or string.sub(s,1,7)=='running') then return 0 end "
        "redis.call('SET',KEYS[1],'waiting','EX',ARGV[1]) redis.call('XADD',KEYS[2],'*','id',ARGV[2],'value',ARGV[3]) "
        "return 1",
        {key, state_->stream}, {state_ttl_s, id, sealed}, after(step_limit));
  });
  return id;
}

JobState Queue::state(const std::string& id) {
  const std::string text = state_->with_server([&](Client& client) {
    return client.call({"GET", state_->values.keys().job(id)}, after(step_limit)).text;
  });
  const std::string rest = text.substr(std::min(text.size(), text.find(' ') + 1));
  if (text == "waiting") return {JobState::Kind::waiting, ""};
  if (text == "done") return {JobState::Kind::done, ""};
  if (text.starts_with("running")) return {JobState::Kind::running, rest};
  if (text.starts_with("dead ")) return {JobState::Kind::dead, rest};
  return {};
}

std::optional<QueueEntry> Queue::State::claim(Client& from, const std::string& worker, Milliseconds patience) {
  const Reply reply = from.call({"XAUTOCLAIM", stream, group, worker, std::to_string(patience.count()), "0-0", "COUNT", "1"},
                                after(step_limit));
  if (reply.elements.size() < 2 || reply.elements[1].elements.empty()) return std::nullopt;
  return parse_entry(reply.elements[1].elements[0]);
}

std::optional<QueueEntry> Queue::State::read(Client& from, const std::string& worker, Milliseconds wait) const {
  Command command{"XREADGROUP", "GROUP", group, worker, "COUNT", "1"};
  if (wait.count() > 0) command.insert(command.end(), {"BLOCK", std::to_string(wait.count())});
  command.insert(command.end(), {"STREAMS", stream, ">"});
  const Reply reply = from.call(command, after(wait + step_limit));
  if (reply.elements.empty() || reply.elements[0].elements.size() < 2 || reply.elements[0].elements[1].elements.empty())
    return std::nullopt;
  return parse_entry(reply.elements[0].elements[1].elements[0]);
}

std::optional<Job> Queue::take(const std::string& worker, Milliseconds patience, Milliseconds wait) {
  return state_->with_server([&](Client& client) -> std::optional<Job> {
    std::optional<QueueEntry> entry = state_->claim(client, worker, patience);
    if (!entry) entry = state_->read(client, worker, wait);
    if (!entry) return std::nullopt;
    if (const auto own = state_->taken.find(entry->job_id);
        own != state_->taken.end() && own->second.entry.entry_id == entry->entry_id)
      return std::nullopt;  // was not renewed in time; no other worker has it
    const auto opened = unseal(entry->value, state_->label(entry->job_id), state_->values.credentials().trust);
    const auto* const value = std::get_if<Value>(&opened);
    if (value == nullptr) {
      state_->bury(client, *entry, "", "the job is " + std::string(name(std::get<Refusal>(opened))));
      return std::nullopt;
    }
    const Reply pending =
        client.call({"XPENDING", state_->stream, group, entry->entry_id, entry->entry_id, "1"}, after(step_limit));
    const bool is_known = !pending.elements.empty() && pending.elements[0].elements.size() == 4;
    Job job{entry->job_id, value->payload, is_known ? static_cast<int>(pending.elements[0].elements[3].integer) : 1};
    if (job.deliveries > max_deliveries) {
      state_->bury(client, *entry, job.payload,
                   "its workers ended without a result " + std::to_string(max_deliveries) + " times");
      return std::nullopt;
    }
    state_->set_state(client, job.id, "running " + worker);
    state_->taken[job.id] = {*entry, worker};
    return job;
  });
}

bool Queue::renew(const Job& job, bool begun) {
  const auto found = state_->taken.find(job.id);
  if (found == state_->taken.end()) return false;
  const TakenEntry& taken = found->second;
  const bool is_ours = state_->with_server([&](Client& client) {
    return client
               .evaluate(claim_again_script, {state_->stream},
                         {group, taken.entry.entry_id, taken.worker, "0", std::to_string(job.deliveries - (begun ? 0 : 1))},
                         after(step_limit))
               .integer == 1;
  });
  if (!is_ours) state_->taken.erase(found);
  return is_ours;
}

void Queue::give_back(const Job& job) {
  const auto found = state_->taken.find(job.id);
  if (found == state_->taken.end()) return;
  const TakenEntry taken = found->second;
  state_->taken.erase(found);
  state_->with_server([&](Client& client) {
    client.evaluate(
        claim_again_script, {state_->stream, state_->values.keys().job(job.id)},
        {group, taken.entry.entry_id, taken.worker, idle_for_all_ms, std::to_string(job.deliveries - 1), state_ttl_s},
        after(step_limit));
  });
}

void Queue::finish(const Job& job, const JobResult& result) {
  const auto found = state_->taken.find(job.id);
  if (found == state_->taken.end()) return;
  const QueueEntry entry = found->second.entry;
  state_->taken.erase(found);
  state_->with_server([&](Client& client) {
    if (result.kind == JobResult::Kind::done) {
      state_->set_state(client, job.id, "done");
      state_->remove(client, entry.entry_id);
    } else if (result.kind == JobResult::Kind::hopeless || job.deliveries >= max_deliveries) {
      state_->bury(client, entry, job.payload, result.error);
    } else {
      state_->set_state(client, job.id, "running, after an error: " + result.error);
    }
  });
}

std::int64_t Queue::size() {
  return state_->with_server([&](Client& client) {
    return client.call({"XLEN", state_->stream}, after(step_limit)).integer;
  });
}

std::vector<Queue::DeadLetter> Queue::dead_letters() {
  const Reply reply = state_->with_server([&](Client& client) {
    return client.call({"LRANGE", state_->dead, "0", "-1"}, after(step_limit));
  });
  std::vector<DeadLetter> letters;
  for (const Reply& element : reply.elements) {
    ByteReader reader(element.text);
    DeadLetter letter{std::string(reader.text(1 << 10)), std::string(reader.text(1 << 20)),
                      std::string(reader.text(1 << 16))};
    if (reader.is_done()) letters.push_back(std::move(letter));
  }
  return letters;
}

}  // namespace tunesmith::fleet
