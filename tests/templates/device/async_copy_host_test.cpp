// Asynchronous copies on the host executor complete only when their thread waits, and a missing wait is detected.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <numeric>

#include "tests/jit/host/kernels.h"
#include "tests/templates/device/matrix_kernels.h"

namespace tunesmith {
namespace {

constexpr std::uint32_t poison = 0xffffffffu;

struct Params {
  const std::uint32_t* in;
  std::uint32_t* out;
};

class AsyncCopyHost : public testing::Test {
 protected:
  AsyncCopyHost() { std::iota(in_.begin(), in_.end(), 1u); }

  static Kernels& kernels() {
    static Kernels built(test::matrix_request(R"(
using namespace tunesmith;
struct Params { const uint32* in; uint32* out; };

// Stores the current first word of each of four chunks in shared memory.
__device__ __forceinline__ void look(const Bits<16>* tile, uint32*& out) {
  for (int i = 0; i < 4; ++i) *out++ = tile[i].word[0];
}
extern "C" __global__ void groups(const __grid_constant__ Params p) {
  TUNESMITH_SHARED(Bits<16>, tile, 4);
  uint32* out = p.out;
  for (int i = 0; i < 4; ++i) tile[i] = Bits<16>{{100, 100, 100, 100}};
  async_copy_16(&tile[0], p.in, true);
  async_copy_commit();
  async_copy_16(&tile[1], p.in + 4, true);
  async_copy_commit();
  async_copy_commit();  // an empty group counts
  async_copy<16>(&tile[2], p.in + 8);
  async_copy_commit();
  async_copy_16(&tile[3], p.in + 12, true);
  look(tile, out);
  async_copy_wait<4>();
  look(tile, out);
  async_copy_wait<3>();
  look(tile, out);
  async_copy_wait<1>();
  look(tile, out);
  async_copy_wait<0>();  // waits for all committed groups
  look(tile, out);
  async_copy_commit();
  async_copy_wait<0>();
  look(tile, out);
}
extern "C" __global__ void zero_fill(const __grid_constant__ Params p) {
  TUNESMITH_SHARED(Bits<16>, tile, 32);
  const int i = thread_index();
  const bool there = i % 3 != 0;
  async_copy_16(&tile[i], there || i % 2 == 0 ? p.in + 4 * i : nullptr, there);
  async_copy_commit();
  const Bits<16> before = tile[i];
  async_copy_wait<0>();
  p.out[i] = before.word[3];
  p.out[32 + i] = tile[i].word[0];
  p.out[64 + i] = tile[i].word[3];
}
extern "C" __global__ void without_barrier(const __grid_constant__ Params p) {
  TUNESMITH_SHARED(Bits<16>, tile, 32);
  const int i = thread_index();
  async_copy_16(&tile[i], p.in + 4 * i, true);
  async_copy_commit();
  async_copy_wait<0>();
  p.out[i] = tile[31 - i].word[0];
  sync_block();
  p.out[32 + i] = tile[31 - i].word[0];
}
extern "C" __global__ void without_wait(const __grid_constant__ Params p) {
  TUNESMITH_SHARED(Bits<16>, tile, 32);
  const int i = thread_index();
  async_copy_16(&tile[i], p.in + 4 * i, true);
  async_copy_commit();
  if (i != 3) async_copy_wait<0>();
  sync_block();
  p.out[i] = tile[3].word[0];
}
extern "C" __global__ void to_global_memory(const __grid_constant__ Params p) { async_copy_16(p.out, p.in, true); }
extern "C" __global__ void misaligned(const __grid_constant__ Params p) {
  async_copy_16(dynamic_shared(), p.in + 1, false);
}
)",
                                              {8, 0, 0}));
    return built;
  }

  /// Runs a kernel and returns the message of its error, if any.
  std::string run(const char* entry, std::uint32_t threads) {
    KernelLaunch launch = launch_of(entry, {1}, {threads});
    launch.dynamic_smem_bytes = 16;
    try {
      kernels().run(launch, Params{in_.data(), out_.data()});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::device_failed);
      return error.what();
    }
    return "";
  }

  alignas(16) std::array<std::uint32_t, 128> in_;
  alignas(16) std::array<std::uint32_t, 96> out_ = {};
};

TEST_F(AsyncCopyHost, GroupsCompleteWhenTheirThreadWaits) {
  ASSERT_EQ(run("groups", 1), "");
  const std::array<std::uint32_t, 24> expected = {
      poison, poison, poison, poison,  // starting a copy overwrites the destination
      poison, poison, poison, poison,  // four groups may be unfinished
      1,      poison, poison, poison,  // three
      1,      5,      poison, poison,  // the last one
      1,      5,      9,      poison,  // a copy that was not committed is not complete
      1,      5,      9,      13,
  };
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(out_[i], expected[i]) << i;
}

TEST_F(AsyncCopyHost, WritesZerosIfThePredicateIsFalse) {
  ASSERT_EQ(run("zero_fill", 32), "");
  for (std::uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(out_[i], poison);
    EXPECT_EQ(out_[32 + i], i % 3 == 0 ? 0 : in_[4 * i]);
    EXPECT_EQ(out_[64 + i], i % 3 == 0 ? 0 : in_[4 * i + 3]);
  }
}

TEST_F(AsyncCopyHost, WaitCoversOnlyTheThreadsOwnCopies) {
  ASSERT_EQ(run("without_barrier", 32), "");
  EXPECT_EQ(out_[0], poison);
  for (std::uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out_[32 + i], in_[4 * (31 - i)]);
}

TEST_F(AsyncCopyHost, MissingWaitReadsPoisonAndIsAnError) {
  EXPECT_EQ(run("without_wait", 32),
            "kernel 'without_wait': thread (3,0,0) of block 0 returns without waiting for 1 of its asynchronous copies");
  EXPECT_EQ(out_[0], poison);
  EXPECT_EQ(run("groups", 1), "") << "unfinished copies are discarded";
}

TEST_F(AsyncCopyHost, WrongAddresses) {
  EXPECT_EQ(run("to_global_memory", 1),
            "kernel 'to_global_memory': thread (0,0,0) of block 0 copies asynchronously to an address that is not in its "
            "block's shared memory");
  const std::string message = run("misaligned", 1);
  EXPECT_NE(message.find("misaligned async_copy_16 from 0x"), std::string::npos) << message;
}

}  // namespace
}  // namespace tunesmith
