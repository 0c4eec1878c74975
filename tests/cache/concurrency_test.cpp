// Threads and processes that share a cache file, are killed during a write, or fork.

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <random>
#include <set>
#include <thread>

#include "tests/cache/fixture.h"
#include "tests/support/torture.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;
using CacheConcurrency = CacheTest;

constexpr std::size_t image_bytes = 6000;

std::string fingerprint(int writer, int i) { return std::to_string(writer) + "/" + std::to_string(i); }

void write_rows(Cache& cache, int writer, int count) {
  for (int i = 0; i < count; ++i) {
    cache.store_binary(sample_binary(fingerprint(writer, i), image_bytes, i), "text");
    cache.store_record(sample_record(1000 * writer + i, i + 1), sample_trials(3, i));
  }
}

void expect_rows(Cache& cache, int writer, int count) {
  for (int i = 0; i < count; ++i) {
    const auto binary = cache.find_binary(fingerprint(writer, i));
    ASSERT_TRUE(binary) << writer << " " << i;
    expect_equal(*binary, sample_binary(fingerprint(writer, i), image_bytes, i));
    const auto record = cache.find_record(sample_key(1000 * writer + i));
    ASSERT_TRUE(record) << writer << " " << i;
    expect_equal(*record, sample_record(1000 * writer + i, i + 1));
  }
}

TEST_F(CacheConcurrency, ThreadsShareACache) {
  Cache cache(options());
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 6; ++writer) {
    threads.emplace_back([&, writer] {
      write_rows(cache, writer, 10);
      expect_rows(cache, writer, 10);
      cache.find_nearest(sample_key(64), 3);
      cache.info();
    });
  }
  for (auto& thread : threads) thread.join();
  for (int writer = 0; writer < 6; ++writer) expect_rows(cache, writer, 10);
  EXPECT_TRUE(cache.verify().empty());
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CacheConcurrency, ThreadsWithACacheEachShareAFile) {
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 4; ++writer) {
    threads.emplace_back([&, writer] {
      CacheOptions mine;
      mine.file = file();
      mine.busy_timeout_ms = 30'000;
      Cache cache(mine);
      write_rows(cache, writer, 8);
      expect_rows(cache, writer, 8);
    });
  }
  for (auto& thread : threads) thread.join();
  Cache cache(options());
  for (int writer = 0; writer < 4; ++writer) expect_rows(cache, writer, 8);
  EXPECT_TRUE(cache.verify().empty());
}

TEST_F(CacheConcurrency, WarningCallbackMayUseTheCache) {
  write_file(file(), random_bytes(3000, 1));
  Cache* used = nullptr;
  CacheOptions with_callback;
  with_callback.file = file();
  int calls = 0;
  with_callback.warn = [&](const std::string&) {
    ++calls;
    used->info();
    throw std::runtime_error("a callback may fail");
  };
  Cache cache(with_callback);
  used = &cache;
  EXPECT_NO_THROW(cache.find_record(sample_key(64)));
  EXPECT_EQ(calls, 1);
}

TEST_F(CacheConcurrency, ProcessesCreateAndWriteAFileConcurrently) {
  std::vector<pid_t> processes;
  for (int writer = 0; writer < 5; ++writer) {
    processes.push_back(start_process([&, writer] {
      CacheOptions patient = options();
      patient.busy_timeout_ms = 60'000;
      Cache cache(patient);
      write_rows(cache, writer, 15);
      expect_rows(cache, writer, 15);
      EXPECT_TRUE(warnings.empty()) << warnings.front();
    }));
  }
  for (const pid_t process : processes) EXPECT_TRUE(finished_well(process));
  Cache cache(options());
  for (int writer = 0; writer < 5; ++writer) expect_rows(cache, writer, 15);
  EXPECT_TRUE(cache.verify().empty());
  EXPECT_EQ(count_aside(), 0);
}

TEST_F(CacheConcurrency, ProcessesMoveACorruptFileAsideOnce) {
  for (int round = 0; round < 5; ++round) {
    fs::remove(file());
    write_file(file(), random_bytes(20'000, round));
    std::vector<pid_t> processes;
    for (int writer = 0; writer < 4; ++writer) {
      processes.push_back(start_process([&, writer] {
        CacheOptions patient = options();
        patient.busy_timeout_ms = 60'000;
        Cache cache(patient);
        cache.find_record(sample_key(1));
        write_rows(cache, writer, 4);
        EXPECT_LE(warnings.size(), 1u);
      }));
    }
    for (const pid_t process : processes) EXPECT_TRUE(finished_well(process));
    EXPECT_EQ(count_aside(), round + 1) << "the new file must not be moved aside";
    Cache cache(options());
    for (int writer = 0; writer < 4; ++writer) expect_rows(cache, writer, 4);
  }
}

TEST_F(CacheConcurrency, KilledWritersLeaveAHealthyFile) {
  std::mt19937 random(7);
  int written = 0;
  for (int round = 0; round < static_cast<int>(torture_rounds(40)); ++round) {
    int commits[2];
    ASSERT_EQ(pipe(commits), 0);
    const pid_t process = start_process([&] {
      Cache cache(options());
      for (int i = 0;; ++i) {
        cache.store_binary(sample_binary(fingerprint(round, i), 30'000, i), "text of " + std::to_string(i));
        if (write(commits[1], "c", 1) != 1) return;
      }
    });
    // The process is killed during its second to fifth write.
    char byte = 0;
    const int committed = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < committed; ++i) ASSERT_EQ(read(commits[0], &byte, 1), 1);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 1500));
    kill(process, SIGKILL);
    int status = 0;
    waitpid(process, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    close(commits[0]);
    close(commits[1]);
    Cache cache(options());
    for (int i = 0;; ++i) {
      const auto found = cache.find_binary(fingerprint(round, i));
      EXPECT_TRUE(found || i >= committed) << "a committed row is lost";
      if (!found) break;
      expect_equal(*found, sample_binary(fingerprint(round, i), 30'000, i));
      EXPECT_TRUE(cache.find_source(found->source_hash)) << "stored in one transaction";
      ++written;
    }
    if (round % 8 == 7) {
      EXPECT_TRUE(cache.verify().empty());
    }
  }
  Cache cache(options());
  EXPECT_TRUE(cache.verify().empty());
  EXPECT_GE(written, 40);
  EXPECT_EQ(cache.info().binaries, written);
  EXPECT_EQ(count_aside(), 0);
  EXPECT_TRUE(warnings.empty());
}

// Eight processes on one file: three store tunings, three binaries, two merge files of other machines. All are killed at
// random points, again and again; every row that one of them had committed is there.
TEST_F(CacheConcurrency, EightKilledTunersPrewarmersAndMergersLoseNothing) {
  constexpr int processes = 8, merged_rows = 4;
  struct Shared {
    std::atomic<int> committed[processes], merged[processes], warnings;
  };
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const shared = new (memory) Shared{};
  const auto merges = [](int process) { return process >= 6; };
  const auto row = [](int process, int i) { return 1'000'000 * (process + 1) + i; };
  const auto source = [&](int process, int round) {
    return folder() / ("machine-" + std::to_string(process) + "-" + std::to_string(round) + ".db");
  };
  const auto work = [&](int process, int round) {
    Cache cache(options());
    for (int i = shared->committed[process];; ++i) {
      if (merges(process)) {
        cache.import_from(source(process, round));  // the first time it has something to copy
        shared->merged[process] = round + 1;
      } else if (process % 2 == 0) {
        cache.store_record(sample_record(row(process, i), i % 7 + 1), sample_trials(8, i));
      } else {
        cache.store_binary(sample_binary(fingerprint(process, i), 20'000, i), "text of " + std::to_string(i));
      }
      shared->committed[process] = i + 1;
      shared->warnings += static_cast<int>(warnings.size());
    }
  };
  std::mt19937 random(5);
  int kills = 0;
  const int rounds = static_cast<int>(torture_rounds(3));
  std::set<std::pair<int, int>> merged;
  for (int round = 0; round < rounds; ++round) {
    std::vector<pid_t> started;
    for (int process = 0; process < processes; ++process) {
      if (merges(process)) {
        Cache other(options(source(process, round)));
        for (int i = 0; i < merged_rows; ++i) {
          other.store_record(sample_record(row(process, merged_rows * round + i), i + 1), {});
          other.store_binary(sample_binary(fingerprint(process, merged_rows * round + i), 5000, i), "text");
        }
      }
      started.push_back(start_process([&] { work(process, round); }));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(30 + random() % 100));
    std::shuffle(started.begin(), started.end(), random);
    for (const pid_t process : started) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
      kill(process, SIGKILL);
      int status = 0;
      waitpid(process, &status, 0);
      EXPECT_TRUE(WIFSIGNALED(status));
      ++kills;
    }
    for (int process = 0; process < processes; ++process)
      if (merges(process) && shared->merged[process] == round + 1) merged.emplace(process, round);
  }
  Cache cache(options());
  int rows = 0;
  for (int process = 0; process < 6; ++process)
    for (int i = 0; i < shared->committed[process]; ++i, ++rows) {
      if (process % 2 == 0) {
        const auto record = cache.find_record(sample_key(row(process, i)));
        ASSERT_TRUE(record) << "committed row " << i << " of process " << process << " is lost";
        expect_equal(*record, sample_record(row(process, i), i % 7 + 1));
        EXPECT_EQ(cache.find_trials(sample_key(row(process, i))).size(), 8u);
      } else {
        const auto binary = cache.find_binary(fingerprint(process, i));
        ASSERT_TRUE(binary) << "committed binary " << i << " of process " << process << " is lost";
        expect_equal(*binary, sample_binary(fingerprint(process, i), 20'000, i));
      }
    }
  for (const auto& [process, round] : merged)
    for (int i = merged_rows * round; i < merged_rows * (round + 1); ++i, rows += 2) {
      EXPECT_TRUE(cache.find_record(sample_key(row(process, i)))) << "a merged record is lost";
      EXPECT_TRUE(cache.find_binary(fingerprint(process, i))) << "a merged binary is lost";
    }
  std::printf("  %d kills, %d committed rows\n", kills, rows);
  EXPECT_GT(rows, 3 * rounds);
  EXPECT_TRUE(cache.verify().empty());
  EXPECT_EQ(count_aside(), 0);
  EXPECT_EQ(shared->warnings, 0);
  EXPECT_TRUE(warnings.empty());
  munmap(memory, sizeof(Shared));
}

TEST_F(CacheConcurrency, PlaysBackTheJournalOfAKilledWriter) {
  { Cache(options()).store_binary(sample_binary("kept", 100'000), "text"); }
  // A writer that is killed after it wrote pages to the file and before it removed the journal.
  const pid_t process = start_process([&] {
    Connection connection = Connection::open_file(file(), Connection::Access::read_write, 0);
    connection.execute("PRAGMA cache_size=2; BEGIN IMMEDIATE; UPDATE binaries SET image=zeroblob(300000), log='half'");
    raise(SIGKILL);
  });
  int status = 0;
  waitpid(process, &status, 0);
  ASSERT_TRUE(fs::exists(folder() / "cache.db-journal")) << "the test needs a journal";
  Cache cache(options());
  const auto found = cache.find_binary("kept");
  ASSERT_TRUE(found);
  expect_equal(*found, sample_binary("kept", 100'000));
  EXPECT_TRUE(cache.verify().empty());
  EXPECT_EQ(names(), (std::vector<std::string>{"cache.db", "cache.db.lock"}));
  EXPECT_TRUE(warnings.empty());
}

// The connection of a process that only reads cannot play back a journal.
TEST_F(CacheConcurrency, ReaderSurvivesAKilledWriter) {
  { Cache(options()).store_binary(sample_binary("kept", 100'000), "text"); }
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  // Fork before this process uses SQLite.
  const pid_t process = start_process([&] {
    char byte = 0;
    if (read(go[0], &byte, 1) != 1) return;
    Connection connection = Connection::open_file(file(), Connection::Access::read_write, 0);
    connection.execute("PRAGMA cache_size=2; BEGIN IMMEDIATE; UPDATE binaries SET image=zeroblob(300000), log='half'");
    raise(SIGKILL);
  });
  Cache reader(options());
  EXPECT_TRUE(reader.find_binary("kept"));
  ASSERT_EQ(write(go[1], "g", 1), 1);
  int status = 0;
  waitpid(process, &status, 0);
  close(go[0]);
  close(go[1]);
  ASSERT_TRUE(fs::exists(folder() / "cache.db-journal")) << "the test needs a journal";
  const auto found = reader.find_binary("kept");
  ASSERT_TRUE(found);
  expect_equal(*found, sample_binary("kept", 100'000));
  reader.store_binary(sample_binary("new", 100), "text");
  EXPECT_TRUE(Cache(options()).find_binary("new"));
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CacheConcurrency, LockedFileIsAMissAfterTheTimeoutAndStays) {
  { Cache(options()).store_record(sample_record(64), {}); }
  Connection holder = Connection::open_file(file(), Connection::Access::read_write, 0);
  holder.execute("BEGIN EXCLUSIVE");
  CacheOptions hasty = options();
  hasty.busy_timeout_ms = 50;
  {
    Cache cache(hasty);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_FALSE(cache.find_record(sample_key(64)));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
    cache.store_record(sample_record(128), {});
    EXPECT_TRUE(cache.find_record(sample_key(128))) << "from memory";
    EXPECT_EQ(warnings.size(), 1u);
    EXPECT_EQ(cache.verify().size(), 1u);
    EXPECT_THROW(cache.clear({}), Error);
    holder.execute("ROLLBACK");
    EXPECT_TRUE(cache.find_record(sample_key(64))) << "after the lock is released";
    EXPECT_TRUE(cache.find_record(sample_key(128)));
    EXPECT_EQ(warnings.size(), 1u);
  }
  EXPECT_EQ(count_aside(), 0);
}

TEST_F(CacheConcurrency, WriterWaitsForAReader) {
  Cache cache(options());
  cache.store_record(sample_record(64), {});
  Connection holder = Connection::open_file(file(), Connection::Access::read_write, 0);
  holder.execute("BEGIN; SELECT * FROM records");
  std::thread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    holder.execute("ROLLBACK");
  });
  cache.store_record(sample_record(128), {});
  release.join();
  EXPECT_TRUE(Cache(options()).find_record(sample_key(128)));
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CacheConcurrency, AnotherProcessHoldsTheLockFile) {
  { Cache(options()).store_record(sample_record(64), {}); }
  FILE* lock = std::fopen((folder() / "cache.db.lock").c_str(), "r+");
  ASSERT_TRUE(lock);
  ASSERT_EQ(flock(fileno(lock), LOCK_EX), 0);
  CacheOptions hasty = options();
  hasty.busy_timeout_ms = 20;
  Cache cache(hasty);
  EXPECT_FALSE(cache.find_record(sample_key(64)));
  EXPECT_EQ(warnings.size(), 1u);
  std::fclose(lock);
  EXPECT_TRUE(cache.find_record(sample_key(64)));
}

TEST_F(CacheConcurrency, ForkedProcessesUseTheSameCache) {
  Cache cache(options());
  cache.store_record(sample_record(64), {});
  cache.store_binary(sample_binary("a", 5000), "text");
  std::vector<pid_t> processes;
  for (int writer = 1; writer <= 3; ++writer) {
    processes.push_back(start_process([&, writer] {
      EXPECT_TRUE(cache.find_record(sample_key(64)));
      write_rows(cache, writer, 8);
      expect_rows(cache, writer, 8);
      // Also in a child of the child.
      EXPECT_TRUE(finished_well(start_process([&] { expect_rows(cache, writer, 8); })));
    }));
  }
  write_rows(cache, 0, 8);
  for (const pid_t process : processes) EXPECT_TRUE(finished_well(process));
  for (int writer = 0; writer <= 3; ++writer) expect_rows(cache, writer, 8);
  EXPECT_TRUE(cache.verify().empty());
}

TEST_F(CacheConcurrency, ForkWhileAThreadIsInsideSqliteDisablesTheCache) {
  Cache cache(options());
  cache.store_record(sample_record(64), {});
  Connection holder = Connection::open_file(file(), Connection::Access::read_write, 0);
  holder.execute("BEGIN EXCLUSIVE");
  std::thread waiting([&] { EXPECT_TRUE(cache.find_record(sample_key(64))); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(finished_well(start_process([&] {
    alarm(4);  // less than the busy timeout, because SQLite must not be called
    EXPECT_FALSE(cache.find_record(sample_key(64)));
    cache.store_record(sample_record(128), {});
    EXPECT_TRUE(cache.find_nearest(sample_key(64), 3).empty());
    EXPECT_TRUE(cache.verify().empty());
    EXPECT_THROW(cache.clear({}), Error);
    EXPECT_THROW(cache.export_to(folder() / "out.db", true), Error);
    EXPECT_THROW(cache.import_from(file()), Error);
    EXPECT_NE(cache.info().why_not_writable.find("forked"), std::string::npos);
    EXPECT_EQ(warnings.size(), 1u);
  })));
  holder.execute("ROLLBACK");
  waiting.join();
  EXPECT_TRUE(cache.find_record(sample_key(64)));
  EXPECT_FALSE(cache.find_record(sample_key(128)));
}

TEST_F(CacheConcurrency, ForkWhileAThreadWritesNeitherHangsNorCorrupts) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "GCC's sanitizers may fork while a thread holds the lock of their allocator";
#endif
  Cache cache(options());
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) cache.store_binary(sample_binary(fingerprint(0, i % 50), image_bytes, i % 50), "text");
  });
  for (int round = 0; round < 25; ++round) {
    const pid_t process = start_process([&] {
      alarm(20);  // turns a deadlock into a failure
      const auto found = cache.find_binary(fingerprint(0, 0));
      if (found) expect_equal(*found, sample_binary(fingerprint(0, 0), image_bytes, 0));
      cache.store_record(sample_record(round), {});
      cache.info();
    });
    EXPECT_TRUE(finished_well(process)) << round;
    std::this_thread::sleep_for(std::chrono::microseconds(137 * round));
  }
  stop = true;
  writer.join();
  EXPECT_TRUE(cache.verify().empty());
  EXPECT_EQ(count_aside(), 0);
}

}  // namespace
}  // namespace tunesmith
