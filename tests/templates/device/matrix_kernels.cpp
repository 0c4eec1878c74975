#include "tests/templates/device/matrix_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "templates/template_set.h"

namespace tunesmith::test {

namespace {

constexpr const char* common = R"(
using namespace tunesmith;
struct Params { const void *a, *b, *c; float* out; };

/// Loads a tile of `rows` consecutive rows into shared memory.
template <int row_bytes>
__device__ __forceinline__ void fetch(unsigned char* tile, const void* from, int rows) {
  constexpr int chunks = row_bytes / 16;
  for (int i = thread_index(); i < rows * chunks; i += 128) {
    unsigned char* to = tile + swizzled<row_bytes>(i / chunks, i % chunks);
    const unsigned char* chunk = static_cast<const unsigned char*>(from) + i * 16;
#if TUNESMITH_SM >= 800
    async_copy_16(to, chunk, true);
#else
    *reinterpret_cast<Bits<16>*>(to) = load<16, LoadHint::plain>(chunk);
#endif
  }
}
__device__ __forceinline__ void fetched() {
#if TUNESMITH_SM >= 800
  async_copy_commit();
  async_copy_wait<0>();
#endif
  sync_block();
}

/// Loads sixteen columns of B, starting at column n and row k.
template <int columns, int depth, bool as_rows_of_columns>
__device__ __forceinline__ void load_b(uint32 (&b)[4], const unsigned char* tile, int n, int k) {
  const int lane = lane_index();
  if constexpr (as_rows_of_columns)
    load_matrix_x4_transposed(b, tile + swizzled<columns * 2>(k + lane % 16, n / 8 + lane / 16));
  else
    load_matrix_x4(b, tile + swizzled<depth * 2>(n + lane / 16 * 8 + lane % 8, k / 8 + lane / 8 % 2));
}

template <int columns>
__device__ __forceinline__ void write(float* out, const float (&d)[columns / 8][4]) {
  const int row = warp_index() * 16 + lane_index() / 4, column = lane_index() % 4 * 2;
#pragma unroll
  for (int n = 0; n < columns / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) out[(row + i / 2 * 8) * columns + n * 8 + column + i % 2] = d[n][i];
}

template <typename Element, int columns, int depth, bool as_rows_of_columns>
__device__ __forceinline__ void multiply_tiles(float (&d)[columns / 8][4], const unsigned char* a, const unsigned char* b) {
#pragma unroll
  for (int k = 0; k < depth; k += 16) {
    uint32 rows[4];
    load_matrix_x4(rows, a + swizzled<depth * 2>(warp_index() * 16 + lane_index() % 16, k / 8 + lane_index() / 16));
#pragma unroll
    for (int n = 0; n < columns; n += 16) {
      uint32 pair[4];
      load_b<columns, depth, as_rows_of_columns>(pair, b, n, k);
      multiply_accumulate_16x8x16<Element>(d[n / 8], rows, {pair[0], pair[1]});
      multiply_accumulate_16x8x16<Element>(d[n / 8 + 1], rows, {pair[2], pair[3]});
    }
  }
}

template <typename Element, bool as_rows_of_columns>
__device__ __forceinline__ void product(const Params& params) {
  constexpr int columns = 96, depth = 64;
  unsigned char* a = dynamic_shared();
  unsigned char* b = a + 64 * depth * 2;
  fetch<depth * 2>(a, params.a, 64);
  fetch<(as_rows_of_columns ? columns : depth) * 2>(b, params.b, as_rows_of_columns ? depth : columns);
  fetched();
  float d[columns / 8][4] = {};
  multiply_tiles<Element, columns, depth, as_rows_of_columns>(d, a, b);
  write<columns>(params.out, d);
}

template <typename Element>
__device__ __forceinline__ void chained(const Params& params) {
  unsigned char* a = dynamic_shared();
  unsigned char* b = a + 64 * 128;
  unsigned char* c = b + 64 * 128;
  fetch<128>(a, params.a, 64);
  fetch<128>(b, params.b, 64);
  fetch<128>(c, params.c, 64);
  fetched();
  float s[8][4] = {}, o[8][4] = {};
  multiply_tiles<Element, 64, 64, false>(s, a, b);
#pragma unroll
  for (int k = 0; k < 64; k += 16) {
    const float (&left)[4] = s[k / 8], (&right)[4] = s[k / 8 + 1];
    const uint32 p[4] = {pack<Element>(left[0], left[1]), pack<Element>(left[2], left[3]),
                         pack<Element>(right[0], right[1]), pack<Element>(right[2], right[3])};
#pragma unroll
    for (int n = 0; n < 64; n += 16) {
      uint32 pair[4];
      load_b<64, 64, true>(pair, c, n, k);
      multiply_accumulate_16x8x16<Element>(o[n / 8], p, {pair[0], pair[1]});
      multiply_accumulate_16x8x16<Element>(o[n / 8 + 1], p, {pair[2], pair[3]});
    }
  }
  write<64>(params.out, o);
}

)";

constexpr const char* of_f16 = R"(
extern "C" __global__ void __launch_bounds__(128) product_f16(const __grid_constant__ Params p) { product<f16, false>(p); }
extern "C" __global__ void __launch_bounds__(128) product_f16_transposed(const __grid_constant__ Params p) {
  product<f16, true>(p);
}
extern "C" __global__ void __launch_bounds__(128) chained_f16(const __grid_constant__ Params p) { chained<f16>(p); }
)";

constexpr const char* of_bf16 = R"(
extern "C" __global__ void __launch_bounds__(128) product_bf16(const __grid_constant__ Params p) { product<bf16, false>(p); }
extern "C" __global__ void __launch_bounds__(128) product_bf16_transposed(const __grid_constant__ Params p) {
  product<bf16, true>(p);
}
extern "C" __global__ void __launch_bounds__(128) chained_bf16(const __grid_constant__ Params p) { chained<bf16>(p); }
)";

constexpr const char* of_stores = R"(
extern "C" __global__ void __launch_bounds__(32) round_trip(const __grid_constant__ Params p) {
  TUNESMITH_SHARED(Bits<16>, from, 32);
  TUNESMITH_SHARED(Bits<16>, to, 32);
  const int i = thread_index();
  from[i] = load<16, LoadHint::plain>(static_cast<const Bits<16>*>(p.a) + i);
  sync_warp();
  uint32 r[4];
  load_matrix_x4(r, &from[i]);
  store_matrix_x4(&to[i], r);
  sync_warp();
  store<16, StoreHint::plain>(reinterpret_cast<Bits<16>*>(p.out) + i, to[i]);
}
)";

}  // namespace

std::string matrix_kernels(const Arch& arch) {
  return std::string(common) + of_f16 + (arch.number() >= 80 ? of_bf16 : "") + (arch.number() >= 90 ? of_stores : "");
}

CompileRequest matrix_request(const std::string& text, const Arch& arch) {
  return {"matrix.cu", TemplateSet::embedded().flatten("device/matrix.cuh") + "#line 1 \"matrix.cu\"\n" + text, arch};
}

namespace {

struct Params {
  void *a = nullptr, *b = nullptr, *c = nullptr;
  void* out = nullptr;
};

/// Converts a value that is exact in 16 bits, so that the test does not depend on rounding.
std::uint16_t bits_of(double value, bool is_bf16) {
  const auto narrow = static_cast<float>(value);
  const auto bits = std::bit_cast<std::uint32_t>(narrow);
  if (is_bf16) return static_cast<std::uint16_t>(bits >> 16);
  if (narrow == 0) return 0;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | (((bits & 0x7fffffffu) - (112u << 23)) >> 13));
}

using Matrix = std::vector<double>;

/// Returns integers up to `most`, or multiples of 2^-7 in [-1, 1]; all are exact in bf16 and f16.
Matrix numbers(std::size_t count, int most, bool integers, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> distribution(integers ? -most : -128, integers ? most : 128);
  Matrix values(count);
  for (double& value : values) value = distribution(random) / (integers ? 1.0 : 128.0);
  return values;
}

/// Multiplies rows x depth by depth x columns, row-major; `magnitude` is the sum of magnitudes, which bounds rounding
/// errors.
Matrix multiplied(const Matrix& a, const Matrix& b, std::size_t depth, std::size_t columns, Matrix& magnitude) {
  const std::size_t rows = a.size() / depth;
  Matrix d(rows * columns);
  magnitude.assign(rows * columns, 0);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t k = 0; k < depth; ++k)
      for (std::size_t column = 0; column < columns; ++column) {
        const double term = a[row * depth + k] * b[k * columns + column];
        d[row * columns + column] += term;
        magnitude[row * columns + column] += std::abs(term);
      }
  return d;
}

Matrix transposed(const Matrix& matrix, std::size_t columns) {
  const std::size_t rows = matrix.size() / columns;
  Matrix result(matrix.size());
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column) result[column * rows + row] = matrix[row * columns + column];
  return result;
}

class Runner {
 public:
  Runner(const Compiler& compiler, Device& device, const Arch& arch)
      : device_(device), module_(device.load(compiler.compile(matrix_request(matrix_kernels(arch), arch)))) {}

  /// Runs `entry` with these inputs, each an array of 16-bit elements, and returns its output.
  template <typename Out>
  std::vector<Out> run(const std::string& entry, std::uint32_t threads,
                       const std::vector<std::vector<std::uint16_t>>& inputs, std::size_t out_count) {
    Params params;
    void** const fields[] = {&params.a, &params.b, &params.c};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      *fields[i] = device_.allocate(inputs[i].size() * 2);
      device_.copy_to_device(*fields[i], inputs[i].data(), inputs[i].size() * 2);
    }
    params.out = device_.allocate(out_count * sizeof(Out));
    device_.fill(params.out, 0xff, out_count * sizeof(Out));
    KernelLaunch launch;
    launch.entry = entry;
    launch.grid.x = 1;
    launch.block.x = threads;
    launch.dynamic_smem_bytes = 24 << 10;
    device_.prepare(*module_, launch)->enqueue(&params, nullptr);
    device_.synchronize(nullptr);
    std::vector<Out> out(out_count);
    device_.copy_to_host(out.data(), params.out, out_count * sizeof(Out));
    for (void* const memory : {params.a, params.b, params.c, params.out})
      if (memory != nullptr) device_.release(memory);
    return out;
  }

 private:
  Device& device_;
  std::shared_ptr<Module> module_;
};

std::vector<std::uint16_t> narrowed(const Matrix& values, bool is_bf16) {
  std::vector<std::uint16_t> bits;
  bits.reserve(values.size());
  for (const double value : values) bits.push_back(bits_of(value, is_bf16));
  return bits;
}

/// Checks sums of products; `error` is the allowed error relative to the magnitude, 0 for exact sums.
void expect_near(const std::vector<float>& found, const Matrix& expected, const Matrix& magnitude, double error) {
  ASSERT_EQ(found.size(), expected.size());
  int wrong = 0;
  for (std::size_t i = 0; i < found.size() && wrong < 10; ++i) {
    if (std::abs(found[i] - expected[i]) <= error * magnitude[i]) continue;
    ADD_FAILURE() << "element " << i << " is " << found[i] << ", not " << expected[i];
    ++wrong;
  }
}

void check_products(Runner& runner, bool is_bf16, bool integers) {
  const std::string dtype = is_bf16 ? "bf16" : "f16";
  constexpr std::size_t depth = 64, columns = 96;
  const Matrix a = numbers(64 * depth, 16, integers, 1), b = numbers(depth * columns, 16, integers, 2);
  Matrix magnitude;
  const Matrix expected = multiplied(a, b, depth, columns, magnitude);
  const double error = integers ? 0 : depth * 0x1p-23;
  for (const bool as_rows_of_columns : {false, true}) {
    const std::string entry = "product_" + dtype + (as_rows_of_columns ? "_transposed" : "");
    SCOPED_TRACE(entry + (integers ? " of integers" : " of fractions"));
    const Matrix stored = as_rows_of_columns ? b : transposed(b, columns);
    expect_near(runner.run<float>(entry, 128, {narrowed(a, is_bf16), narrowed(stored, is_bf16)}, expected.size()), expected,
                magnitude, error);
  }
}

void check_chained(Runner& runner, bool is_bf16) {
  SCOPED_TRACE(is_bf16 ? "chained_bf16" : "chained_f16");
  const Matrix a = numbers(64 * 64, 1, true, 3), b = numbers(64 * 64, 1, true, 4), c = numbers(64 * 64, 16, true, 5);
  Matrix magnitude;
  const Matrix expected = multiplied(multiplied(a, b, 64, 64, magnitude), c, 64, 64, magnitude);
  expect_near(
      runner.run<float>(is_bf16 ? "chained_bf16" : "chained_f16", 128,
                        {narrowed(a, is_bf16), narrowed(transposed(b, 64), is_bf16), narrowed(c, is_bf16)}, expected.size()),
      expected, magnitude, 0);
}

}  // namespace

void check_matrix_kernels(const Compiler& compiler, Device& device, const Arch& arch) {
  SCOPED_TRACE(name(arch));
  Runner runner(compiler, device, arch);
  for (const bool is_bf16 : {false, true}) {
    if (is_bf16 && arch.number() < 80) continue;
    for (const bool integers : {true, false}) check_products(runner, is_bf16, integers);
    check_chained(runner, is_bf16);
  }
  if (arch.number() < 90) return;
  std::vector<std::uint16_t> elements(256);
  std::iota(elements.begin(), elements.end(), std::uint16_t{1});
  EXPECT_EQ(runner.run<std::uint16_t>("round_trip", 32, {elements}, 256), elements);
}

}  // namespace tunesmith::test
