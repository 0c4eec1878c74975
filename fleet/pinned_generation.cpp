#include "fleet/pinned_generation.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

namespace tunesmith::fleet {
namespace {

std::string read_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Writes a file for this user only and renames it, so that readers see all of it or nothing. Failures do not matter: the
/// server has it.
void write_file(const std::filesystem::path& file, std::string_view bytes) {
  std::error_code ignored;
  if (!file.parent_path().empty() && !std::filesystem::exists(file.parent_path(), ignored)) return;
  const std::string partial = file.string() + ".partial-" + std::to_string(getpid());
  const int descriptor = open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return;
  const bool is_written = write(descriptor, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  const bool is_complete = is_written && fsync(descriptor) == 0;
  close(descriptor);
  if (is_complete) std::filesystem::rename(partial, file, ignored);
  if (!is_complete || ignored) std::filesystem::remove(partial, ignored);
}

}  // namespace

PinnedGeneration::PinnedGeneration(std::string name, Milliseconds limit, std::filesystem::path copy,
                                   const SharedValues& values, std::function<void(const std::string&)> warn)
    : name_(std::move(name)), limit_(limit), copy_(std::move(copy)), values_(values), warn_(std::move(warn)) {}

const PinnedGeneration::Contents* PinnedGeneration::get(ReadConnection& connection) {
  if (const Contents* loaded = loaded_.load(std::memory_order_acquire)) return loaded;
  const std::lock_guard lock(mutex_);
  if (!contents_ && Clock::now() >= next_try_) {
    load(connection);
    next_try_ = after(Milliseconds(1000));
    loaded_.store(contents_.get(), std::memory_order_release);
  }
  return contents_.get();
}

bool PinnedGeneration::take(std::string_view bytes) {
  auto found = values_.open_generation(bytes, name_);
  if (const auto* refusal = std::get_if<Refusal>(&found)) {
    warn_("generation '" + name_ + "' is " + std::string(name(*refusal)));
    return false;
  }
  auto& generation = std::get<Generation>(found);
  auto contents = std::make_unique<Contents>();
  contents->tunings = std::make_unique<Cache>(CacheOptions{});
  for (const SharedTuning& tuning : generation.tunings) contents->tunings->store_record(tuning.record, tuning.trials);
  contents->binaries = std::move(generation.binaries);
  contents_ = std::move(contents);
  return true;
}

void PinnedGeneration::load(ReadConnection& connection) {
  if (!copy_.empty()) {
    const std::string kept = read_file(copy_);
    // A copy that was damaged, or signed by a key that is no longer trusted, is replaced.
    if (!kept.empty() && std::holds_alternative<Generation>(values_.open_generation(kept, name_)) && take(kept)) return;
  }
  Reply reply;
  const bool is_answered = connection.ask(limit_, [&](Client& client, Deadline deadline) {
    reply = client.call({"GET", values_.keys().generation(name_)}, deadline);
  });
  if (!is_answered) return;
  if (reply.is_nil())
    warn_("the server has no generation '" + name_ + "'");
  else if (take(reply.text) && !copy_.empty())
    write_file(copy_, reply.text);
}

}  // namespace tunesmith::fleet
