// The tensor-core primitives on the host executor: products, properties of the swizzle, and faults of kernels.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "tests/jit/host/kernels.h"
#include "tests/templates/device/matrix_kernels.h"

namespace tunesmith {
namespace {

TEST(MatrixHost, ProductsForEveryArchitecture) {
  const HostCompiler compiler(test_compiler_options());
  HostDevice device;
  for (const char* arch : {"sm_75", "sm_80", "sm_90a"}) test::check_matrix_kernels(compiler, device, parse_arch(arch));
}

// Reports whether one access to shared memory (32 banks of 4 bytes) can serve eight chunks at these offsets.
bool without_conflict(const std::vector<int>& offsets) {
  std::set<int> banks;
  for (const int offset : offsets)
    for (int word = 0; word < 4; ++word) banks.insert((offset / 4 + word) % 32);
  return banks.size() == 4 * offsets.size();
}

TEST(MatrixHost, SwizzlePermutesARowWithoutBankConflicts) {
  struct Params {
    int* out;
  };
  constexpr int rows = 24;
  const std::vector<int> widths = {16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 192, 224, 256, 320, 384, 512};
  std::string calls;
  for (const int width : widths) calls += "  list<" + std::to_string(width) + ">(out);\n";
  Kernels kernels(test::matrix_request(R"(
struct Params { int* out; };
template <int row_bytes>
__device__ __forceinline__ void list(int*& out) {
  static_assert(tunesmith::swizzled<row_bytes>(0, 0) == 0, "a constant expression");
  for (int row = 0; row < 24; ++row)
    for (int chunk = 0; chunk < row_bytes / 16; ++chunk) *out++ = tunesmith::swizzled<row_bytes>(row, chunk);
}
extern "C" __global__ void places(const __grid_constant__ Params params) {
  int* out = params.out;
)" + calls + "}",
                                       {9, 0, 'a'}));
  std::vector<int> out(24 * 2000, -1);
  kernels.run(launch_of("places", {1}, {1}), Params{out.data()});
  const int* place = out.data();
  for (const int width : widths) {
    SCOPED_TRACE(width);
    const int chunks = width / 16;
    const auto at = [&](int row, int chunk) { return place[row * chunks + chunk]; };
    std::set<int> all;
    for (int row = 0; row < rows; ++row)
      for (int chunk = 0; chunk < chunks; ++chunk) {
        EXPECT_EQ(at(row, chunk) % 16, 0);
        EXPECT_EQ(at(row, chunk) / width, row) << "a chunk stays in its row";
        all.insert(at(row, chunk));
      }
    EXPECT_EQ(static_cast<int>(all.size()), rows * chunks) << "chunks do not overlap";
    // ldmatrix and fragment loads read the same chunk of eight consecutive rows, starting at any row.
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int row = 0; row + 8 <= rows; ++row) {
        std::vector<int> column;
        for (int i = 0; i < 8; ++i) column.push_back(at(row + i, chunk));
        EXPECT_TRUE(without_conflict(column)) << "row " << row << ", chunk " << chunk;
      }
    // Eight lanes of a copy write eight consecutive chunks.
    for (int first = 0; first < rows * chunks; first += 8) {
      const std::vector<int> run(place + first, place + first + 8);
      EXPECT_TRUE(without_conflict(run)) << "chunks from " << first;
    }
    place += rows * chunks;
  }
  EXPECT_LE(place, out.data() + out.size());
}

TEST(MatrixHost, LayoutWithoutSwizzleHasBankConflicts) {
  std::vector<int> column;
  for (int row = 0; row < 8; ++row) column.push_back(row * 128);
  EXPECT_FALSE(without_conflict(column)) << "otherwise the test above could not fail";
}

struct FaultParams {
  int what;
  float* out;
};

std::string fault(std::uint32_t threads, int what) {
  static Kernels kernels(test::matrix_request(R"(
struct Params { int what; float* out; };
extern "C" __global__ void faulty(const __grid_constant__ Params params) {
  using namespace tunesmith;
  TUNESMITH_SHARED(Bits<16>, tile, 33);
  const int i = thread_index();
  float d[4] = {};
  uint32 r[4] = {};
  switch (params.what) {
    case 0:
      if (i != 9) load_matrix_x4(r, &tile[i % 32]);
      return;
    case 1:
      if (i < 16) load_matrix_x4(r, &tile[i % 32]);
      else load_matrix_x4_transposed(r, &tile[i % 32]);
      return;
    case 2:
      if (i != 40) multiply_accumulate_16x8x16<f16>(d, r, {1, 2});
      else sync_warp();
      return;
    case 3: multiply_accumulate_16x8x16<bf16>(d, r, {1, 2}); return;
    case 4: load_matrix_x4(r, reinterpret_cast<char*>(&tile[i % 32]) + 8); return;
    case 5:
      if (i % 2 == 0) store_matrix_x4(&tile[i % 32], r);
      else ballot(true);
      return;
    case 6: {  // an uninitialized matrix is NaN, and so is its product
      load_matrix_x4(r, &tile[i % 32]);
      multiply_accumulate_16x8x16<f16>(d, r, {0, 0});
      params.out[i] = d[3];
    }
  }
})",
                                              {9, 0, 'a'}));
  float out[64];
  try {
    kernels.run(launch_of("faulty", {1}, {threads}), FaultParams{what, out});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device_failed);
    return error.what();
  }
  return std::to_string(out[0]);
}

TEST(MatrixHost, LanesInDifferentCollectives) {
  EXPECT_EQ(fault(64, 0),
            "kernel 'faulty': thread (0,0,0) of block 0 waits in load_matrix_x4 but thread (9,0,0) has returned");
  EXPECT_EQ(fault(64, 1),
            "kernel 'faulty': thread (0,0,0) of block 0 waits in load_matrix_x4 but thread (16,0,0) waits in "
            "load_matrix_x4_transposed");
  EXPECT_EQ(fault(64, 2),
            "kernel 'faulty': thread (32,0,0) of block 0 waits in multiply_accumulate_16x8x16 but thread (40,0,0) waits in "
            "sync_warp");
  EXPECT_EQ(fault(64, 5),
            "kernel 'faulty': thread (0,0,0) of block 0 waits in store_matrix_x4 but thread (1,0,0) waits in ballot");
}

TEST(MatrixHost, PartialWarp) {
  EXPECT_EQ(
      fault(40, 3),
      "kernel 'faulty': thread (32,0,0) of block 0 waits in multiply_accumulate_16x8x16, whose warp has 8 threads; all "
      "32 must take part");
}

TEST(MatrixHost, UnalignedRow) {
  const std::string message = fault(32, 4);
  EXPECT_NE(message.find("misaligned load_matrix_x4 from 0x"), std::string::npos) << message;
}

TEST(MatrixHost, UninitializedSharedMemoryIsNaN) { EXPECT_NE(fault(32, 6).find("nan"), std::string::npos); }

}  // namespace
}  // namespace tunesmith
