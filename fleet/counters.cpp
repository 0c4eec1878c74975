#include "fleet/counters.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

namespace tunesmith::fleet {
namespace {

// Buckets of the histogram have bounds of 2^i microseconds: 16 us to 2 s.
constexpr int first_bucket = 4, last_bucket = 21;
constexpr std::string_view latency = "lookup_us ";

Counts parse(const std::string& text) {
  Counts counts;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t blank = line.rfind(' ');
    if (blank == std::string_view::npos || blank == 0) continue;
    std::uint64_t count = 0;
    const char* const end = line.data() + line.size();
    const auto [last, failure] = std::from_chars(line.data() + blank + 1, end, count);
    if (failure == std::errc() && last == end) counts[std::string(line.substr(0, blank))] = count;
  }
  return counts;
}

bool lock(int descriptor) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

std::string read_all(int descriptor) {
  std::string text(std::size_t{1} << 16, '\0');
  const ssize_t size = pread(descriptor, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

}  // namespace

void Counters::add(const std::string& name, std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  counts_[name] += count;
}

void Counters::add_latency(std::chrono::nanoseconds time) {
  const auto time_us = static_cast<std::uint64_t>(time.count() / 1000);
  int bucket = first_bucket;
  while (bucket < last_bucket && time_us > (std::uint64_t{1} << bucket)) ++bucket;
  add(std::string(latency) + std::to_string(bucket));
  add("lookup_us_sum", time_us);
}

Counts Counters::all() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

Counts Counters::take_new() {
  const std::lock_guard lock(mutex_);
  Counts fresh;
  for (const auto& [name, count] : counts_)
    if (count != taken_[name]) fresh[name] = count - taken_[name];
  taken_ = counts_;
  return fresh;
}

void add_to_file(const std::filesystem::path& file, const Counts& counts) {
  if (counts.empty()) return;
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return;
  if (lock(descriptor)) {
    Counts sum = parse(read_all(descriptor));
    for (const auto& [name, count] : counts) sum[name] += count;
    std::string text;
    for (const auto& [name, count] : sum) text += name + " " + std::to_string(count) + "\n";
    if (pwrite(descriptor, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()))
      static_cast<void>(ftruncate(descriptor, static_cast<off_t>(text.size())) == 0);
  }
  close(descriptor);
}

Counts read_counts(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return parse({std::istreambuf_iterator<char>(stream), {}});
}

std::string prometheus_text(const Counts& counts) {
  std::string text, last;
  std::uint64_t lookups = 0;
  for (const auto& [name, count] : counts) {
    if (name.starts_with("lookup_us")) continue;
    const std::string metric = "tunesmith_remote_" + name.substr(0, name.find('{'));
    if (metric != last) text += "# TYPE " + metric + " counter\n";
    last = metric;
    text += "tunesmith_remote_" + name + " " + std::to_string(count) + "\n";
  }
  const auto count_of = [&](const std::string& name) {
    const auto found = counts.find(name);
    return found == counts.end() ? std::uint64_t{0} : found->second;
  };
  const std::string histogram = "tunesmith_remote_lookup_seconds";
  text += "# TYPE " + histogram + " histogram\n";
  for (int bucket = first_bucket; bucket <= last_bucket; ++bucket) {
    lookups += count_of(std::string(latency) + std::to_string(bucket));
    const std::string bound =
        bucket == last_bucket ? "+Inf" : std::to_string(static_cast<double>(std::uint64_t{1} << bucket) * 1e-6);
    text += histogram + "_bucket{le=\"" + bound + "\"} " + std::to_string(lookups) + "\n";
  }
  text += histogram + "_sum " + std::to_string(static_cast<double>(count_of("lookup_us_sum")) * 1e-6) + "\n";
  text += histogram + "_count " + std::to_string(lookups) + "\n";
  return text;
}

}  // namespace tunesmith::fleet
