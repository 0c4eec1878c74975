#include "tests/random/session.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "tests/random/chance.h"
#include "tests/random/coverage.h"
#include "tests/random/shrink.h"
#include "tunesmith/error.h"

namespace tunesmith::test {
namespace {

/// Problems that the host compiler compiles in one run.
constexpr std::size_t problems_at_once = 12;
/// Waiting problems of an operation, in each process, from which on few are drawn.
constexpr std::size_t enough_waiting = 60;

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
/// Returns the seconds of processor time that a process has taken; 0: this one.
double cpu_s(pid_t process) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// What a process is doing, for the parent to read when it crashes.
struct Slot {
  std::atomic<double> since;  ///< 0: nothing that can hang
  std::atomic<double> cpu_before;
  std::atomic<bool> drawing;
  std::uint64_t seed;
  char text[6000];
};

struct Shared {
  static constexpr int max_jobs = 64, max_failures = 40;
  std::atomic<std::uint64_t> next;
  std::atomic<std::int64_t> drawn, invalid, kernels, launches, failures;
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

/// Counts failures of a kind, which have the same words apart from numbers. The first three are shown.
bool is_new_kind(Shared& shared, const std::string& failure, const std::string& line) {
  std::uint64_t kind = mixed(5, line.substr(0, line.find(' ')));
  for (const char c : failure.substr(0, 60))
    if (c < '0' || c > '9') kind = mixed(kind, static_cast<unsigned char>(c));
  return shared.kinds[kind % shared.kinds.size()]++ < 3;
}

void report(Shared& shared, const SessionOptions& options, std::uint64_t seed, const std::string& line,
            const std::string& failure) {
  const std::int64_t at = shared.failures++;
  if (!is_new_kind(shared, failure, line)) return;
  if (at < Shared::max_failures) {
    copy_text(shared.failed_cases[at], sizeof shared.failed_cases[at], line);
    copy_text(shared.failed_texts[at], sizeof shared.failed_texts[at], failure);
  }
  const std::string again = seed == 0 || line[0] != '(' ? "--case '...'" : "--seed " + hex(seed);
  std::string text = "FAILED: " + failure + "\n  case: " + line + "\n  reproduce: tests/random_problems --device " +
                     options.device + " " + again + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// A problem that may run.
struct Candidate {
  RandomCase random_case;
  Checked checked;
  std::uint64_t seed;
  std::vector<std::uint64_t> classes;
};

/// Problems that wait until no other one covers more.
class Pool {
 public:
  void add(std::size_t op, Candidate candidate) { waiting_[op].push_back(std::move(candidate)); }
  std::size_t size(std::size_t op) const { return waiting_[op].size(); }

  /// Removes problems without a pair that was not chosen yet, and returns the one with the most.
  std::optional<Candidate> take(std::size_t op, const PairSets& pairs) {
    std::vector<Candidate>& waiting = waiting_[op];
    std::vector<std::size_t> fresh;
    for (const Candidate& each : waiting) fresh.push_back(pairs.lacks(PairSets::taken, op, each.classes));
    std::size_t kept = 0, best = 0;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (fresh[i] == 0) continue;
      if (kept != i) waiting[kept] = std::move(waiting[i]);
      fresh[kept] = fresh[i];
      if (fresh[kept] > fresh[best]) best = kept;
      ++kept;
    }
    waiting.resize(kept);
    if (waiting.empty()) return std::nullopt;
    Candidate taken = std::move(waiting[best]);
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(best));
    return taken;
  }

 private:
  std::array<std::vector<Candidate>, PairSets::max_ops> waiting_;
};

/// One process.
class Worker {
 public:
  Worker(Shared& shared, const SessionOptions& options, int number, double end)
      : shared_(shared),
        options_(options),
        slot_(shared.slots[number]),
        end_(end),
        runner_(options.device, options.mutation) {}

  void run() {
    const std::size_t batch = runner_.on_host() ? problems_at_once : 1;
    while (goes_on() && !runner_.broken()) {
      std::vector<Runner::Run> runs;
      while (runs.size() < batch && goes_on()) {
        if (std::optional<Runner::Run> drawn = draw_one()) runs.push_back(std::move(*drawn));
        if (options_.check_only) break;
      }
      if (!options_.check_only) execute(runs);
    }
  }

  /// Runs the seeds and cases. After a crash, those that were compiled with the one that crashed are left out.
  void replay() {
    const std::size_t count = options_.seeds.size() + options_.cases.size();
    const std::size_t batch = runner_.on_host() ? problems_at_once : 1;
    while (shared_.next < count && !runner_.broken()) {
      std::vector<Runner::Run> runs;
      while (runs.size() < batch) {
        const std::size_t i = shared_.next++;
        if (i >= count) break;
        if (std::optional<Runner::Run> run = replayed(i)) runs.push_back(std::move(*run));
      }
      execute(runs);
    }
  }

 private:
  bool goes_on() const { return now_s() < end_ && !(options_.until_failure && shared_.failures > 0); }

  const Sizes& sizes() const { return options_.large ? large_sizes : small_sizes; }

  /// Checks a seed or a case. Returns nothing if it cannot run.
  std::optional<Runner::Run> replayed(std::size_t i) {
    const bool seeded = i < options_.seeds.size();
    seed_ = seeded ? options_.seeds[i] : 0;
    RandomCase drawn;
    if (seeded) {
      enter("drawing", nullptr);
      drawn = draw(seed_, sizes(), runner_.drawn_for(seed_));
    } else {
      drawn = RandomCase::parse(options_.cases[i - options_.seeds.size()]);
    }
    if (options_.seeds.size() + options_.cases.size() == 1) std::printf("%s\n", drawn.text().c_str());
    Runner::Run run{.random_case = drawn, .checked = check(drawn, true), .seed = seed_};
    const ParsedProblem* const problem = run.checked.problem.get();
    if (problem == nullptr || options_.check_only || !fits(*problem, large_sizes)) return std::nullopt;
    if (!runner_.is_quick(*problem, run.checked.config)) return std::nullopt;
    return run;
  }

  /// Notes what begins, in case the process ends.
  void enter(const char* what, const RandomCase* drawn) {
    slot_.seed = seed_;
    slot_.drawing = drawn == nullptr;
    copy_text(slot_.text, sizeof slot_.text, drawn == nullptr ? what : drawn->text());
    slot_.cpu_before = cpu_s(0);
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

  /// Draws some problems of one operation, and takes the waiting one with the most pairs that were not chosen yet.
  std::optional<Runner::Run> draw_one() {
    const Op& op = next_op();
    const std::size_t index = op_index(op);
    // Rare pairs wait until common ones are covered; then there is time for more problems.
    const int count = options_.check_only || pool_.size(index) < enough_waiting ? options_.candidates : 1;
    for (int i = 0; i < count && goes_on(); ++i) draw_candidate(op);
    std::optional<Candidate> best = pool_.take(index, shared_.pairs);
    if (!best) return std::nullopt;
    shared_.pairs.add(PairSets::taken, index, best->classes);
    return Runner::Run{.random_case = std::move(best->random_case), .checked = std::move(best->checked), .seed = best->seed};
  }

  /// Returns an operation at random, mostly one with many pairs that did not run.
  const Op& next_op() {
    if (!options_.op.empty()) return find_op(options_.op);
    const auto all = all_ops();
    Chance chance(mixed(options_.run, shared_.next++));
    if (options_.check_only || chance.with(0.3)) return op_of(chance.bits());
    // Problems with more fields cover more pairs.
    std::vector<double> missing;
    double sum = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::int64_t pairs = shared_.pairs.count(PairSets::possible, i) - shared_.pairs.count(PairSets::taken, i) + 1;
      sum += missing.emplace_back(static_cast<double>(pairs) / static_cast<double>(all[i]->cached_fields().size() + 1));
    }
    double at = chance.real() * sum;
    for (std::size_t i = 0; i < all.size(); ++i)
      if ((at -= missing[i]) <= 0) return *all[i];
    return *all.back();
  }

  void draw_candidate(const Op& op) {
    do seed_ = mixed(options_.run, shared_.next++);
    while (&op_of(seed_) != &op);
    RandomCase drawn;
    try {
      enter("drawing", nullptr);
      drawn = draw(seed_, sizes(), runner_.drawn_for(seed_));
    } catch (const std::exception& error) {
      return report(shared_, options_, seed_, "(while drawing)", error.what());
    }
    Checked checked = check(drawn, seed_ % 4 == 0);
    if (checked.problem == nullptr || !fits(*checked.problem, sizes())) return;
    if (!runner_.is_quick(*checked.problem, checked.config)) return;
    std::vector<std::uint64_t> classes = classes_of(drawn, *checked.problem, checked.config);
    const std::size_t index = op_index(checked.problem->op());
    shared_.pairs.add(PairSets::possible, index, classes);
    if (!options_.check_only) pool_.add(index, {std::move(drawn), std::move(checked), seed_, std::move(classes)});
  }

  void execute(std::vector<Runner::Run>& runs) {
    if (runs.empty()) return;
    RunOptions run_options;
    run_options.large = options_.large;
    run_options.all_candidates = options_.all_candidates;
    run_options.gain = [&](const RandomCase& launched, const ParsedProblem& problem, const Config& config) {
      return shared_.pairs.lacks(PairSets::ran, op_index(problem.op()), classes_of(launched, problem, config));
    };
    run_options.verified = [&](const RandomCase& launched, const ParsedProblem& problem, const Config& config) {
      const std::vector<std::uint64_t> covered = classes_of(launched, problem, config);
      for (const auto which : {PairSets::possible, PairSets::taken, PairSets::ran})
        shared_.pairs.add(which, op_index(problem.op()), covered);
    };
    slot_.since = 0;
    runner_.run(runs, run_options, [&](const Runner::Run& run, const RandomCase& launched) {
      if (run.seed != 0) seed_ = run.seed;
      enter("", &launched);
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
  Pool pool_;
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
    const std::int64_t possible = shared.pairs.count(PairSets::possible, i), ran = shared.pairs.count(PairSets::ran, i);
    if (possible > 0)
      std::printf("pairs of %s: %lld of %lld, %.1f%%\n", std::string(all_ops()[i]->name()).c_str(),
                  static_cast<long long>(ran), static_cast<long long>(possible),
                  100.0 * static_cast<double>(ran) / static_cast<double>(possible));
  }
}

/// Prints which fields have pairs that were drawn and did not run.
void print_missing(const Shared& shared, const SessionOptions& options) {
  const Runner runner(options.device);
  std::map<std::string, std::map<std::string, std::set<std::string>>> missing;  // op -> fields -> classes
  const std::uint64_t drawn = std::min<std::uint64_t>(shared.next, 40'000);
  for (std::uint64_t i = 0; i < drawn; ++i) try {
      const std::uint64_t seed = mixed(options.run, i);
      const RandomCase random_case = draw(seed, options.large ? large_sizes : small_sizes, runner.drawn_for(seed));
      const ParsedProblemPtr problem = find_op(random_case.problem.op).parse(random_case.problem);
      const Config config = problem->complete_config(runner.info(), random_case.config);
      const std::vector<std::string> names = class_names(random_case, *problem, config);
      const std::vector<std::uint64_t> classes = classes_of(random_case, *problem, config);
      const std::size_t op = op_index(problem->op());
      for (std::size_t a = 0; a < names.size(); ++a)
        for (std::size_t b = 0; b < a; ++b)
          if (shared.pairs.contains(PairSets::possible, op, classes[a], classes[b]) &&
              !shared.pairs.contains(PairSets::ran, op, classes[a], classes[b]))
            for (const std::string& name : {names[a], names[b]})
              missing[std::string(problem->op().name())][name].insert(names[a] + " with " + names[b]);
    } catch (const Error&) {  // an invalid problem
    }
  for (const auto& [op, classes] : missing) {
    std::vector<std::pair<std::size_t, std::string>> sorted;
    for (const auto& [name, pairs] : classes) sorted.emplace_back(pairs.size(), name + ", such as " + *pairs.begin());
    std::ranges::sort(sorted, std::greater<>());
    for (std::size_t i = 0; i < std::min<std::size_t>(sorted.size(), 12); ++i)
      std::printf("%s lacks %zu pairs of %s\n", op.c_str(), sorted[i].first, sorted[i].second.c_str());
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
  // On the host a hanging kernel computes; time alone may be that of other processes.
  const auto hangs = [&](const Slot& slot, pid_t process) {
    const double since = slot.since, time = since > 0 ? now_s() - since : 0;
    return time > options.hang_s &&
           (options.device != "host" || cpu_s(process) - slot.cpu_before > options.hang_s / 2 || time > 10 * options.hang_s);
  };
  const bool replays = !options.seeds.empty() || !options.cases.empty();
  for (int i = 0; i < std::min(options.jobs, Shared::max_jobs); ++i) start(i);
  while (!workers.empty()) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended <= 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      for (const auto& [pid, number] : workers)
        if (hangs(shared.slots[number], pid)) kill(pid, SIGKILL);
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
    const bool more = replays ? shared.next < options.seeds.size() + options.cases.size()
                              : now_s() < end && !(options.until_failure && shared.failures > 0);
    if (more && (WIFSIGNALED(status) || WEXITSTATUS(status) == 0 || replays)) start(number);
  }
  SessionResult result{shared.drawn, shared.invalid, shared.kernels, shared.launches, shared.failures, {}};
  for (std::int64_t i = 0; i < std::min<std::int64_t>(result.failures, Shared::max_failures); ++i) {
    result.texts.push_back(std::string(shared.failed_texts[i]) + "\n  " + shared.failed_cases[i]);
    if (options.shrink && i < 4) std::printf("  smaller: %s\n", shrunk(shared.failed_cases[i], options.device).c_str());
  }
  if (!replays && !options.check_only && !options.until_failure) print_coverage(shared);
  if (!replays && options.missing) print_missing(shared, options);
  munmap(memory, sizeof(Shared));
  return result;
}

}  // namespace tunesmith::test
