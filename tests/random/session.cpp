#include "tests/random/session.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

#include "tests/random/chance.h"
#include "tests/random/coverage.h"
#include "tests/random/run.h"
#include "tests/random/shrink.h"
#include "tunesmith/error.h"

namespace tunesmith::test {
namespace {

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// What a process is doing, for the parent to read when it crashes.
struct Slot {
  std::atomic<double> since;  ///< 0: nothing that can hang
  std::atomic<bool> drawing;
  std::uint64_t seed;
  char text[6000];
};

struct Shared {
  static constexpr int max_jobs = 64, max_failures = 40;
  std::atomic<std::uint64_t> next;
  std::atomic<std::int64_t> drawn, invalid, kernels, launches, failures, open;
  std::array<std::atomic<int>, 1024> kinds;  ///< of failures
  Slot slots[max_jobs];
  char failed_cases[max_failures][6000];
  char failed_texts[max_failures][2000];
  PairSets pairs;
};

void copy_text(char* to, std::size_t size, const std::string& text) {
  const std::size_t count = std::min(size - 1, text.size());
  std::memcpy(to, text.data(), count);
  to[count] = 0;
}

std::string hex(std::uint64_t seed) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(seed));
  return text;
}

/// Faults that were found and are not mended yet: the beginning of the operation's name, and words of the failure. Failures
/// like these are counted, but do not fail the session.
struct OpenFault {
  std::string_view op, words;
};
constexpr OpenFault open_faults[] = {
    {"cross_entropy_backward",
     "is -0, the reference is -8.9"},  // a gradient below the smallest f64 number, and the bound is 0
    {"softmax", "cannot be launched with a cooperative grid"},  // more threads than the host executor can have resident
    {"attention", "_stride is 0; allowed: 1 to"},               // the normal form of a problem without positions
    {"attention", "has another source"},                        // strides of the verification problem allow wider accesses
    {"attention", "misaligned async_copy"},                     // rows after the last one of a tile with an odd stride
    {"attention", "block_mask[0,0,0,0,0] is not written"},      // batch is 0
    {"attention", "e-45 ("},                                    // outputs below the smallest numbers of the dtype
    {"attention", "e-44 ("},
    {"cross_entropy", "_row_stride is"},  // overlapping rows of problems that another array's strides make strided
};

bool is_open(const std::string& failure, const std::string& line) {
  return std::ranges::any_of(open_faults, [&](const OpenFault& fault) {
    return line.starts_with(fault.op) && failure.find(fault.words) != std::string::npos;
  });
}

/// Counts failures of a kind, which have the same words apart from numbers. The first three are shown.
bool is_new_kind(Shared& shared, const std::string& failure, const std::string& line) {
  std::uint64_t kind = mixed(5, line.substr(0, line.find(' ')));
  for (const char c : failure.substr(0, 60))
    if (c < '0' || c > '9') kind = mixed(kind, static_cast<unsigned char>(c));
  return shared.kinds[kind % shared.kinds.size()]++ < 3;
}

void report(Shared& shared, const SessionOptions& options, std::uint64_t seed, const std::string& line,
            const std::string& failure) {
  if (options.seeds.size() + options.cases.size() != 1 && is_open(failure, line)) {
    ++shared.open;
    return;
  }
  const std::int64_t at = shared.failures++;
  if (!is_new_kind(shared, failure, line)) return;
  if (at < Shared::max_failures) {
    copy_text(shared.failed_cases[at], sizeof shared.failed_cases[at], line);
    copy_text(shared.failed_texts[at], sizeof shared.failed_texts[at], failure);
  }
  const std::string again = seed == 0 ? "--case '...'" : "--seed " + hex(seed) + (options.large ? " --large" : "");
  std::string text = "FAILED: " + failure + "\n  case: " + line + "\n  reproduce: tests/random_problems --device " +
                     options.device + " " + again + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// One process.
class Worker {
 public:
  Worker(Shared& shared, const SessionOptions& options, int number, double end)
      : shared_(shared), options_(options), slot_(shared.slots[number]), end_(end), runner_(options.device) {}

  void run() {
    const std::size_t batch = runner_.on_host() ? 6 : 1;
    while (now_s() < end_ && !runner_.broken()) {
      std::vector<Runner::Run> runs;
      while (runs.size() < batch && now_s() < end_)
        if (std::optional<Runner::Run> drawn = draw_one()) runs.push_back(std::move(*drawn));
      if (!options_.check_only) execute(runs);
    }
  }

  void replay() {
    for (std::size_t i = shared_.next++; i < options_.seeds.size() + options_.cases.size() && !runner_.broken();
         i = shared_.next++) {
      const bool seeded = i < options_.seeds.size();
      seed_ = seeded ? options_.seeds[i] : 0;
      RandomCase drawn;
      if (seeded) {
        enter("drawing", nullptr);
        drawn = draw(seed_, sizes(), runner_.info());
      } else {
        drawn = RandomCase::parse(options_.cases[i - options_.seeds.size()]);
      }
      if (options_.seeds.size() + options_.cases.size() == 1) std::printf("%s\n", drawn.text().c_str());
      std::vector<Runner::Run> runs{{drawn, check(drawn, true)}};
      if (runs[0].checked.problem != nullptr && !options_.check_only && fits(*runs[0].checked.problem, large_sizes))
        execute(runs);
    }
  }

 private:
  const Sizes& sizes() const { return options_.large ? large_sizes : small_sizes; }

  /// Notes what begins, in case the process ends.
  void enter(const char* what, const RandomCase* drawn) {
    slot_.seed = seed_;
    slot_.drawing = drawn == nullptr;
    copy_text(slot_.text, sizeof slot_.text, drawn == nullptr ? what : drawn->text());
    slot_.since = now_s();
  }

  Checked check(const RandomCase& drawn, bool sources) {
    enter("checks", &drawn);
    Checked checked = check_description(drawn, runner_.info(), sources);
    ++shared_.drawn;
    if (!checked.failure.empty())
      report(shared_, options_, seed_, drawn.text(), checked.failure);
    else if (checked.problem == nullptr)
      ++shared_.invalid;
    slot_.since = 0;
    return checked;
  }

  /// Draws some problems and returns the one with the most pairs that did not run yet.
  std::optional<Runner::Run> draw_one() {
    std::optional<Runner::Run> best;
    std::size_t most = 0;
    const Op* op = nullptr;
    for (int i = 0; i < options_.candidates && now_s() < end_; ++i) {
      // All of one operation: each has its share of the time.
      do {
        seed_ = mixed(options_.run, shared_.next++);
      } while (!(options_.op.empty() ? i == 0 || &op_of(seed_) == op : op_of(seed_).name() == options_.op));
      op = &op_of(seed_);
      RandomCase drawn;
      try {
        enter("drawing", nullptr);
        drawn = draw(seed_, sizes(), runner_.info());
      } catch (const std::exception& error) {
        report(shared_, options_, seed_, "(while drawing)", error.what());
        continue;
      }
      Checked checked = check(drawn, i % 4 == 0);
      if (checked.problem == nullptr || !fits(*checked.problem, sizes())) continue;
      const std::vector<std::uint64_t> classes = classes_of(drawn, *checked.problem, checked.config);
      const std::size_t index = op_index(*checked.problem), fresh = shared_.pairs.new_pairs(index, classes);
      shared_.pairs.add_possible(index, classes);
      if (best && fresh <= most) continue;
      most = fresh;
      best = Runner::Run{drawn, checked};
      best->seed = seed_;
    }
    if (best)
      shared_.pairs.add_run(op_index(*best->checked.problem),
                            classes_of(best->random_case, *best->checked.problem, best->checked.config));
    return best;
  }

  void execute(std::vector<Runner::Run>& runs) {
    if (runs.empty()) return;
    RunOptions run_options;
    run_options.large = options_.large;
    run_options.all_candidates = options_.all_candidates;
    slot_.since = 0;
    runner_.run(runs, run_options, [&](const Runner::Run& run) {
      if (run.seed != 0) seed_ = run.seed;
      enter("", &run.random_case);
    });
    slot_.since = 0;
    for (const Runner::Run& run : runs) {
      ++shared_.kernels;
      shared_.launches += run.launches;
      if (!run.failure.empty())
        report(shared_, options_, run.seed != 0 ? run.seed : seed_, run.random_case.text(), run.failure);
    }
  }

  Shared& shared_;
  const SessionOptions& options_;
  Slot& slot_;
  const double end_;
  Runner runner_;
  std::uint64_t seed_ = 0;
};

[[noreturn]] void work(Shared& shared, const SessionOptions& options, int number, double end) {
  int status = 0;
  try {
    Worker worker(shared, options, number, end);
    if (options.seeds.empty() && options.cases.empty())
      worker.run();
    else
      worker.replay();
  } catch (const std::exception& error) {
    report(shared, options, shared.slots[number].seed, shared.slots[number].text, std::string("throws ") + error.what());
    status = 1;
  }
  std::fflush(stdout);
  _exit(status);
}

void print_coverage(const Shared& shared) {
  for (std::size_t i = 0; i < all_ops().size(); ++i) {
    const std::int64_t possible = shared.pairs.possible(i), ran = shared.pairs.ran(i);
    if (possible > 0)
      std::printf("pairs of %s: %lld of %lld, %.1f%%\n", std::string(all_ops()[i]->name()).c_str(),
                  static_cast<long long>(ran), static_cast<long long>(possible),
                  100.0 * static_cast<double>(ran) / static_cast<double>(possible));
  }
}

}  // namespace

SessionResult run_session(const SessionOptions& options) {
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw Error(ErrorCode::out_of_memory, "no shared memory");
  Shared& shared = *static_cast<Shared*>(memory);  // zeros are the initial state
  const double end = now_s() + options.minutes * 60;
  std::map<pid_t, int> workers;
  const auto start = [&](int number) {
    shared.slots[number].since = 0;
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) work(shared, options, number, end);
    workers[child] = number;
  };
  const bool replays = !options.seeds.empty() || !options.cases.empty();
  for (int i = 0; i < std::min(options.jobs, Shared::max_jobs); ++i) start(i);
  while (!workers.empty()) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended <= 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      for (const auto& [pid, number] : workers)
        if (const double since = shared.slots[number].since; since > 0 && now_s() - since > options.hang_s)
          kill(pid, SIGKILL);
      continue;
    }
    const auto found = workers.find(ended);
    if (found == workers.end()) continue;
    const int number = found->second;
    workers.erase(found);
    const Slot& slot = shared.slots[number];
    if (WIFSIGNALED(status)) {
      const bool hung = WTERMSIG(status) == SIGKILL && slot.since > 0 && now_s() - slot.since > options.hang_s;
      report(shared, options, slot.seed, slot.text,
             hung ? "does not end" : std::string("crashes: ") + strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) > 1) {
      report(shared, options, slot.seed, slot.text, "ends with status " + std::to_string(WEXITSTATUS(status)));
    }
    // A worker that ends early leaves the rest to another one.
    const bool more = replays ? shared.next < options.seeds.size() + options.cases.size() : now_s() < end;
    if (more && (WIFSIGNALED(status) || WEXITSTATUS(status) == 0 || replays)) start(number);
  }
  SessionResult result{shared.drawn, shared.invalid, shared.kernels, shared.launches, shared.failures, shared.open, {}};
  for (std::int64_t i = 0; i < std::min<std::int64_t>(result.failures, Shared::max_failures); ++i) {
    result.texts.push_back(std::string(shared.failed_texts[i]) + "\n  " + shared.failed_cases[i]);
    if (options.shrink && i < 4) std::printf("  smaller: %s\n", shrunk(shared.failed_cases[i], options.device).c_str());
  }
  if (!replays) print_coverage(shared);
  munmap(memory, sizeof(Shared));
  return result;
}

}  // namespace tunesmith::test
