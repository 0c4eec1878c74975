// Workspaces of plans: one zeroed piece per stream, for any number of threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "jit/host/device.h"
#include "jit/workspace_pool.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

Stream stream(std::uintptr_t number) { return reinterpret_cast<Stream>(number * 64); }

TEST(WorkspacePool, SharesWhatNeedNotKeepItsContents) {
  HostDevice device;
  WorkspacePool pool(device);
  const auto scratch = pool.get(WorkspaceUse::scratch, 100000);
  EXPECT_EQ(scratch, pool.get(WorkspaceUse::scratch, 130000)) << "one size class";
  EXPECT_NE(scratch, pool.get(WorkspaceUse::scratch, 140000));
  EXPECT_NE(scratch, pool.get(WorkspaceUse::zeros, 100000)) << "scratch would leave something else than zeros";
  EXPECT_EQ(pool.get(WorkspaceUse::zeros, 16), pool.get(WorkspaceUse::zeros, 4096));
  EXPECT_NE(pool.get(WorkspaceUse::own, 4096), pool.get(WorkspaceUse::own, 4096));
  auto* const piece = static_cast<unsigned char*>(scratch->of(stream(1)));
  std::fill_n(piece, 131072, static_cast<unsigned char>(1));  // the whole class is there
}

TEST(Workspaces, EachStreamHasItsZeroedPiece) {
  HostDevice device;
  Workspaces workspaces(device, 4096);
  std::set<void*> pieces;
  for (std::uintptr_t i = 0; i < 2 * Workspaces::prepared; ++i) {
    auto* const piece = static_cast<unsigned char*>(workspaces.of(stream(i)));
    EXPECT_TRUE(pieces.insert(piece).second) << "stream " << i << " got the memory of another stream";
    EXPECT_TRUE(std::all_of(piece, piece + 4096, [](unsigned char byte) { return byte == 0; }));
    std::fill_n(piece, 4096, static_cast<unsigned char>(i + 1));
  }
  for (std::uintptr_t i = 0; i < 2 * Workspaces::prepared; ++i)
    EXPECT_EQ(static_cast<unsigned char*>(workspaces.of(stream(i)))[4095], i + 1);
}

TEST(Workspaces, PreparesFewerPiecesOnRequest) {
  HostDevice device;
  Workspaces workspaces(device, 64, 1);
  EXPECT_NE(workspaces.of(stream(1)), workspaces.of(stream(2)));
  EXPECT_EQ(*static_cast<unsigned char*>(workspaces.of(stream(2))), 0);
}

TEST(Workspaces, PerThreadStreamDiffersBetweenThreads) {
  HostDevice device;
  Workspaces workspaces(device, 64);
  const auto per_thread = reinterpret_cast<Stream>(std::uintptr_t{2});
  void* const here = workspaces.of(per_thread);
  void* there = nullptr;
  std::thread([&] { there = workspaces.of(per_thread); }).join();
  EXPECT_NE(here, there);
  EXPECT_EQ(here, workspaces.of(per_thread));
}

TEST(Workspaces, ConcurrentThreadsGetTheSamePiece) {
  for (int round = 0; round < 50; ++round) {
    HostDevice device;
    Workspaces workspaces(device, 64);
    constexpr std::uintptr_t streams = 12;
    std::array<std::array<void*, streams>, 4> found{};
    std::vector<std::thread> threads;
    for (auto& mine : found)
      threads.emplace_back([&mine, &workspaces] {
        for (std::uintptr_t i = 0; i < streams; ++i) mine[i] = workspaces.of(stream(i));
      });
    for (std::thread& thread : threads) thread.join();
    for (const auto& mine : found) EXPECT_EQ(mine, found[0]);
    EXPECT_EQ(std::set<void*>(found[0].begin(), found[0].end()).size(), streams);
  }
}

TEST(Workspaces, ThreadsOfAStreamTakeTurnsAndStreamsDoNotWait) {
  HostDevice device;
  Workspaces workspaces(device, sizeof(int));
  constexpr int threads = 8, turns = 2000;
  {
    std::vector<std::jthread> running;
    for (int t = 0; t < threads; ++t)
      running.emplace_back([&workspaces] {
        for (int i = 0; i < turns; ++i) {
          const Workspaces::InOrder used = workspaces.in_order(stream(1));
          ++*static_cast<int*>(used.memory);  // a data race without the lock
        }
      });
  }
  const Workspaces::InOrder used = workspaces.in_order(stream(1));
  EXPECT_EQ(*static_cast<int*>(used.memory), threads * turns);
  EXPECT_TRUE(workspaces.in_order(stream(2)).lock.owns_lock()) << "another stream waits";
  EXPECT_EQ(workspaces.of(stream(1)), used.memory);
}

TEST(Workspaces, RejectsMoreStreamsThanItsCapacity) {
  HostDevice device;
  Workspaces workspaces(device, 16);
  for (std::uintptr_t i = 0; i < Workspaces::capacity; ++i) workspaces.of(stream(i));
  try {
    workspaces.of(stream(Workspaces::capacity));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("256 streams"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tunesmith
