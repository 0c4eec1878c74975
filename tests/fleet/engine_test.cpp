// Engines on several hosts, with a scripted GPU, that share a real server.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "cache/remote_store.h"
#include "fleet/protocol/server_keys.h"
#include "fleet/protocol/transfer.h"
#include "tests/api/c/host_engine.h"
#include "tests/api/engine/fakes.h"
#include "tests/fleet/faulty_server.h"
#include "tests/fleet/scripted_tuner.h"
#include "tests/fleet/server.h"
#include "tests/support/torture.h"
#include "tuner/select.h"

namespace tunesmith::fleet {
namespace {

class FleetEngineTest : public FleetTest {
 protected:
  FleetEngineTest() {
    make_key("key");
    tuned_ = new (mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
        std::atomic<int>(0);
  }
  ~FleetEngineTest() override { munmap(tuned_, sizeof(std::atomic<int>)); }

  /// An engine of host `name`, which has a cache file of its own. Its tuner takes `tuning` and counts.
  std::unique_ptr<fakes::FakeEngine> engine(const std::string& name, const std::string& remote, Mode mode = Mode::tune,
                                            Milliseconds tuning = Milliseconds(0)) {
    EngineOptions options = fakes::in_mode(mode);
    options.specialize = Specialize::exact;
    options.remote = remote;
    auto fake = std::make_unique<fakes::FakeEngine>(options, DeviceInfo::Kind::cuda, path(name + ".db"));
    script_tuner(fake->engine->parts(), tuning, [this] { ++*tuned_; });
    return fake;
  }
  std::string signed_url(const std::string& options = "") const { return url("&sign=" + path("key").string() + options); }
  TuningKey key_of(fakes::FakeEngine& fake, const SoftmaxProblem& asked) const {
    const Engine::Parts& parts = fake.engine->parts();
    const ParsedProblemPtr parsed = find_op("softmax").parse_typed(typeid(asked), &asked);
    return tuning_key(*parsed, parts.device->info(), parts.templates);
  }
  int tuned() const { return *tuned_; }

  const SoftmaxProblem problem = SoftmaxProblem::contiguous(64, 1000, DType::f32);

 private:
  std::atomic<int>* tuned_ = nullptr;
};

TEST_F(FleetEngineTest, WhatOneHostTunesAndCompilesTheOtherLoads) {
  TUNESMITH_NEEDS_SERVER();
  start();
  {
    const auto a = engine("a", signed_url());
    EXPECT_EQ(a->engine->prepare(problem).origin(), Origin::tuned);
    EXPECT_EQ(a->compiler->compilations, 1);
  }
  const auto b = engine("b", signed_url());
  const Plan plan = b->engine->prepare(problem);
  EXPECT_EQ(plan.origin(), Origin::exact);
  EXPECT_EQ(tuned(), 1);
  EXPECT_EQ(b->compiler->compilations, 0);
  EXPECT_EQ(b->logged("warning: "), 0);
  // Without keys, the tuning is used and the kernel is compiled here.
  const auto c = engine("c", url());
  EXPECT_EQ(c->engine->prepare(problem).origin(), Origin::exact);
  EXPECT_EQ(c->compiler->compilations, 1);
}

TEST_F(FleetEngineTest, AReplayingEngineFindsTheWidthsOfTheFleet) {
  TUNESMITH_NEEDS_SERVER();
  start();
  engine("a", signed_url())->engine->prepare(problem);
  EngineOptions options = fakes::in_mode(Mode::replay);
  options.remote = signed_url("&mode=rw");
  fakes::FakeEngine b(options, DeviceInfo::Kind::cuda, path("b.db"));
  EXPECT_EQ(b.engine->prepare(problem).origin(), Origin::exact);
  EXPECT_EQ(b.engine->prepare(SoftmaxProblem::contiguous(64, 1004, DType::f32)).origin(), Origin::capacity);
}

TEST_F(FleetEngineTest, OneOfManyHostsTunes) {
  TUNESMITH_NEEDS_SERVER();
  start();
  const int hosts = static_cast<int>(std::min(64U, torture_rounds(16)));
  std::vector<pid_t> children;
  for (int i = 0; i < hosts; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const auto fake = engine("host" + std::to_string(i), signed_url(), Mode::tune, Milliseconds(500));
      const Origin origin = fake->engine->prepare(problem).origin();
      const bool is_expected = origin == Origin::tuned || origin == Origin::by_default || origin == Origin::exact;
      const int warnings = fake->logged("warning: ");
      fake->engine.reset();
      _exit(is_expected && warnings == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(tuned(), 1);
  EXPECT_EQ(engine("late", signed_url())->engine->prepare(problem).origin(), Origin::exact);
}

TEST_F(FleetEngineTest, AKeyThatAnotherHostTunesIsTunedLaterIfItWasKilled) {
  TUNESMITH_NEEDS_SERVER();
  start();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    const auto a = engine("a", signed_url());
    a->engine->parts().tuner = [&](const ParsedProblem&) -> std::optional<Tuned> {
      static_cast<void>(write(ready[1], "x", 1) == 1);
      pause();
      return std::nullopt;
    };
    a->engine->prepare(problem);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  close(ready[1]);
  const auto b = engine("b", signed_url());
  const Plan before = b->engine->prepare(problem);
  EXPECT_EQ(before.origin(), Origin::by_default);
  EXPECT_EQ(b->engine->tuning().pending_keys, 1);
  EXPECT_EQ(b->engine->tune_pending(0.01), 0);  // still elsewhere; nobody waits
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  // The lease has at most 30 s; let it end now.
  const std::string lease = ServerKeys("default").lease(key_of(*b, problem));
  EXPECT_EQ(connect()->call({"PEXPIRE", lease, "1"}, after(Milliseconds(2000))).integer, 1);
  std::this_thread::sleep_for(Milliseconds(20));
  EXPECT_EQ(b->engine->tune_pending(0.01), 1);
  EXPECT_EQ(b->engine->prepare(problem).origin(), Origin::exact);
  EXPECT_EQ(before.origin(), Origin::by_default);  // plans do not change
}

TEST_F(FleetEngineTest, AGenerationDecidesAlone) {
  TUNESMITH_NEEDS_SERVER();
  start();
  const SoftmaxProblem other = SoftmaxProblem::contiguous(64, 1500, DType::f32);  // may use the configuration of `problem`
  {
    const auto a = engine("a", signed_url());
    a->engine->prepare(problem);
  }
  const auto push_generation = [&](const std::string& name) {
    Cache local({path("a.db"), {}, {}, 5000, nullptr});
    PushOptions options;
    options.generation = name;
    push(parse_remote_url(signed_url()), local, options);
  };
  push_generation("one");
  EXPECT_THROW(push_generation("one"), Error);  // generations do not change
  const std::string pinned = signed_url("&generation=one");
  {
    const auto b = engine("b", pinned);
    EXPECT_EQ(b->engine->prepare(problem).origin(), Origin::exact);
    EXPECT_EQ(b->compiler->compilations, 0);
    EXPECT_EQ(b->engine->prepare(other).origin(), Origin::nearest);  // not in the generation, and not tuned
    EXPECT_EQ(tuned(), 1);
  }
  // What this host has tuned itself does not count, and the server is needed only once.
  { EXPECT_EQ(engine("c", "")->engine->prepare(other).origin(), Origin::tuned); }
  { EXPECT_EQ(engine("c", pinned)->engine->prepare(other).origin(), Origin::nearest); }
  stop(SIGKILL);
  const auto c = engine("c", pinned);
  EXPECT_EQ(c->engine->prepare(other).origin(), Origin::nearest);
  EXPECT_EQ(c->engine->prepare(problem).origin(), Origin::exact);
  EXPECT_EQ(tuned(), 2);
}

TEST_F(FleetEngineTest, ASettingRollsAGenerationOutAndBack) {
  TUNESMITH_NEEDS_SERVER();
  start();
  const auto push_generation = [&](const std::string& name, const std::string& config) {
    const auto maker = engine(name, "");
    TuningRecord record;
    record.key = key_of(*maker, problem);
    record.config = config;
    record.effort = "quick";
    CacheOptions file;
    file.file = path(name + ".db");
    Cache local(file);
    local.store_record(record, {});
    PushOptions options;
    options.generation = name;
    options.replace = true;
    push(parse_remote_url(signed_url()), local, options);
  };
  const auto device = generic_device({9, 0, 'a'});
  const std::vector<Config> configs =
      find_op("softmax").parse_typed(typeid(problem), &problem)->search_space(device, Effort::quick);
  ASSERT_GE(configs.size(), 2);
  const std::string first = configs.front().text(), second = configs.back().text();
  push_generation("one", first);
  push_generation("two", second);
  const std::string trusting = url("&mode=ro&trust=" + path("key.pub").string() + "&generation=");
  const auto served = [&](const std::string& host, const std::string& generation) {
    const auto server = engine(host, trusting + generation, Mode::replay);
    const Plan plan = server->engine->prepare(problem);
    EXPECT_EQ(plan.origin(), Origin::exact) << host << " " << generation;
    return plan.config().text();
  };
  for (const char* host : {"a", "b"}) EXPECT_EQ(served(host, "one"), first);
  for (const char* host : {"a", "b"}) EXPECT_EQ(served(host, "two"), second) << "rolled out";
  for (const char* host : {"a", "b"}) EXPECT_EQ(served(host, "one"), first) << "rolled back";
}

TEST_F(FleetEngineTest, AMissingGenerationIsAWarning) {
  TUNESMITH_NEEDS_SERVER();
  start();
  const auto a = engine("a", signed_url("&generation=two"), Mode::replay);
  EXPECT_EQ(a->engine->prepare(problem).origin(), Origin::by_default);
  EXPECT_EQ(a->logged("warning: "), 1);
  EXPECT_EQ(a->logged("the server has no generation 'two'"), 1);
}

TEST_F(FleetEngineTest, AHungServerCostsOneTimeLimit) {
  const FaultyServer server(path("server.sock"), hang());
  const auto a = engine("a", "redis+unix:" + path("server.sock").string() + "?sign=" + path("key").string(), Mode::replay);
  const auto ms = [](Deadline from) { return std::chrono::duration<double, std::milli>(Clock::now() - from).count(); };
  Deadline begin = Clock::now();
  const Plan plan = a->engine->prepare(problem);
  std::printf("  prepare with a hung server: %.1f ms\n", ms(begin));
  EXPECT_LE(ms(begin), 150 + 400);
  EXPECT_EQ(plan.origin(), Origin::by_default);
  std::vector<float> x(64 * 1000, 1.0F), y(64 * 1000);
  begin = Clock::now();
  for (int i = 0; i < 10; ++i) plan.launch(x.data(), y.data());
  EXPECT_LE(ms(begin), 400);
  EXPECT_NEAR(y[0], 1e-3, 1e-6);
  EXPECT_EQ(a->logged("warning: "), 1);
}

// Whatever the server does, plans are made, launch, and compute what they should, with one warning for each engine.
TEST_F(FleetEngineTest, NoFaultOfTheServerFailsALaunch) {
  const std::vector<std::pair<const char*, FaultyServer::Fault>> faults{
      {"hung", hang()},
      {"trickling", trickle("$100000\r\n" + std::string(200, 'x'))},
      {"cut", say_and_close("$1000\r\nabc")},
      {"closed", say_and_close("")},
      {"garbage", say("\x01\x02garbage\r\n")},
      {"huge", say("$536870912\r\n" + std::string(1000, 'x'))},
      {"wrong type", say("*0\r\n*0\r\n*0\r\n*0\r\n")},
      {"LOADING", say("-LOADING dataset\r\n-LOADING dataset\r\n")},
      {"READONLY", say("-READONLY replica\r\n-READONLY replica\r\n")},
      {"OOM", say("-OOM memory\r\n-OOM memory\r\n")},
      {"NOPERM", say("-NOPERM permissions\r\n-NOPERM permissions\r\n")}};
  int number = 0;
  for (const auto& [name, fault] : faults)
    for (const bool answers_login : {true, false}) {
      SCOPED_TRACE(std::string(name) + (answers_login ? "" : " at login"));
      const FaultyServer server(path("server.sock"), fault, answers_login);
      const auto a = engine("fault" + std::to_string(++number),
                            "redis+unix:" + path("server.sock").string() + "?sign=" + path("key").string());
      const Plan plan = a->engine->prepare(problem);
      EXPECT_TRUE(plan.origin() == Origin::tuned || plan.origin() == Origin::by_default);
      std::vector<float> x(64 * 1000, 1.0F), y(64 * 1000);
      plan.launch(x.data(), y.data());
      EXPECT_NEAR(y[0], 1e-3, 1e-6);
      EXPECT_NEAR(y.back(), 1e-3, 1e-6);
      a->engine.reset();  // also what waits to be written
      EXPECT_LE(a->logged("warning: "), 1);
      std::filesystem::remove(path("server.sock"));
    }
}

// What an engine sends, by the bytes that the server has received.
TEST_F(FleetEngineTest, LaunchesAndCapturesNeverUseTheNetwork) {
  TUNESMITH_NEEDS_SERVER();
  start();
  const auto a = engine("a", signed_url(), Mode::replay);
  const Plan plan = a->engine->prepare(problem);
  const SoftmaxProblem other = SoftmaxProblem::contiguous(64, 3000, DType::f32);
  a->engine.reset();  // writes what waits
  const auto b = engine("b", signed_url(), Mode::replay);
  const Plan kept = b->engine->prepare(problem);
  const auto client = connect();
  const auto commands = [&] {
    const std::string info = client->call({"INFO", "stats"}, after(Milliseconds(2000))).text;
    const std::string name = "total_commands_processed:";
    return std::stol(info.substr(info.find(name) + name.size()));
  };
  std::this_thread::sleep_for(Milliseconds(200));  // writes behind
  const long before = commands();
  std::vector<float> x(64 * 1000, 1.0F), y(64 * 1000);
  for (int i = 0; i < 50; ++i) kept.launch(x.data(), y.data());
  b->device->capturing = true;
  kept.launch(x.data(), y.data());
  EXPECT_NO_THROW((void)b->engine->prepare(problem));
  EXPECT_THROW((void)b->engine->prepare(other), Error);
  b->device->capturing = false;
  std::this_thread::sleep_for(Milliseconds(200));
  EXPECT_EQ(commands() - before, 1) << "the question itself";
  (void)b->engine->prepare(other);
  EXPECT_GT(commands() - before, 2) << "outside of a capture the server is asked";
}

/// Threads and sockets of this process.
std::pair<long, long> threads_and_sockets() {
  const std::filesystem::directory_iterator tasks("/proc/self/task"), files("/proc/self/fd");
  long sockets = 0;
  for (const auto& file : files) {
    std::error_code closed;
    sockets += std::filesystem::read_symlink(file.path(), closed).string().starts_with("socket:");
  }
  return {std::distance(begin(tasks), end(tasks)), sockets};
}

TEST_F(FleetEngineTest, WithoutAUrlNothingIsStarted) {
  const auto before = threads_and_sockets();
  const auto a = engine("a", "");
  EXPECT_EQ(a->engine->prepare(problem).origin(), Origin::tuned);
  EXPECT_EQ(threads_and_sockets(), before);
  TUNESMITH_NEEDS_SERVER();
  start();
  const auto b = engine("b", signed_url());
  (void)b->engine->prepare(problem);
  const auto with = threads_and_sockets();
  EXPECT_GT(with.first, before.first);
  EXPECT_GT(with.second, before.second);
}

// The same from C: what one host compiles the other loads.
TEST_F(FleetEngineTest, HostsOfTheCApiShareACache) {
  TUNESMITH_NEEDS_SERVER();
  start();
  for (const char* name : {"a", "b"}) {
    const std::string file = path(std::string(name) + ".db"), remote = signed_url();
    tunesmith_options options = test::host_options();
    options.cache_file = file.c_str();
    options.remote = remote.c_str();
    options.mode = "replay";
    tunesmith_engine* made = nullptr;
    ASSERT_EQ(tunesmith_engine_create(&options, &made), TUNESMITH_OK) << tunesmith_last_error();
    tunesmith_plan* plan = nullptr;
    const test::NamedProblem asked("softmax", {{"rows", 8}, {"cols", 100}, {"dtype", "f32"}});
    ASSERT_EQ(tunesmith_prepare(made, asked.get(), nullptr, TUNESMITH_MODE_OF_ENGINE, &plan), TUNESMITH_OK)
        << tunesmith_last_error();
    EXPECT_EQ(tunesmith_plan_compiled(plan), name[0] == 'a');
    tunesmith_plan_destroy(plan);
    tunesmith_engine_destroy(made);
  }
}

TEST_F(FleetEngineTest, AMalformedUrlIsAnError) { EXPECT_THROW(engine("a", "http://cache"), Error); }

}  // namespace
}  // namespace tunesmith::fleet
