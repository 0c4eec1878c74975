#include "api/engine/compile_ahead.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <system_error>

#include "api/engine/log_text.h"

namespace tunesmith {
namespace {

/// Other buckets are compiled after callers have waited for this many: with fewer, a program with two widths would compile
/// kernels that it never uses.
constexpr std::size_t enough_buckets = 3;
/// Wider rows are rare, and their kernels take longest to compile.
constexpr std::int64_t widest_ahead = 131072;
/// Further classes of problems are ignored.
constexpr std::size_t max_families = 1024;

std::size_t thread_count(const EngineOptions& options) {
  return std::min<std::size_t>(options.compile_ahead_jobs, std::max(1u, std::thread::hardware_concurrency() / 2));
}

}  // namespace

CompileAhead::CompileAhead(Engine::Parts& parts) : parts_(parts), process_(getpid()) {}

CompileAhead::~CompileAhead() {
  if (process_ != getpid()) {  // a forked child has none of its parent's threads, and maybe their lock
    for (std::thread& thread : threads_) thread.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void CompileAhead::compiled(const ParsedProblem& problem) {
  if (thread_count(parts_.options) == 0 || parts_.device->info().kind != DeviceInfo::Kind::cuda) return;
  std::string key(problem.op().name());
  key.append(" ").append(problem.capacity_class());
  std::size_t added = 0;
  {
    const std::lock_guard lock(mutex_);
    if (families_.size() >= max_families && !families_.contains(key)) return;
    Family& family = families_[key];
    family.capacities.insert(problem.capacity());
    family.scheduled.insert(problem.capacity());
    if (family.capacities.size() < enough_buckets) return;
    added = schedule(problem, family);
    start_threads();
  }
  if (added == 0) return;
  say(parts_.options, EngineOptions::Level::info, "compiling kernels like that of ", problem.problem().short_text(), " for ",
      added, " more buckets of n_cols in the background");
}

std::size_t CompileAhead::schedule(const ParsedProblem& problem, Family& family) {
  const std::int64_t widest = *family.capacities.rbegin();
  const std::int64_t least = *family.capacities.begin() / 2, most = std::clamp(widest_ahead, widest, 2 * widest);
  std::size_t added = 0;
  for (ParsedProblemPtr& other : problem.in_buckets(least, most)) {
    if (!family.scheduled.insert(other->capacity()).second) continue;
    waiting_.push_back(std::move(other));
    ++added;
  }
  return added;
}

void CompileAhead::start_threads() {
  if (running_ == 0) {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  const std::size_t wanted = std::min(thread_count(parts_.options), waiting_.size());
  try {
    for (; running_ < wanted; ++running_) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {  // the system's limit on threads: callers compile what they need
  }
}

void CompileAhead::work() {
  std::unique_lock lock(mutex_);
  while (!stopping_ && !waiting_.empty()) {
    const ParsedProblemPtr problem = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    compile(*problem);
    lock.lock();
  }
  if (--running_ == 0) idle_.notify_all();
}

void CompileAhead::compile(const ParsedProblem& problem) const noexcept {
  try {
    const DeviceInfo& device = parts_.device->info();
    if (const std::optional<Config> config = problem.capacity_config(device))
      build_binary({problem, *config, parts_.templates}, device.arch, *parts_.compiler, *parts_.cache);
  } catch (const std::exception&) {  // a caller who needs this kernel gets the error
  }
}

void CompileAhead::wait() const {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return running_ == 0; });
}

}  // namespace tunesmith
