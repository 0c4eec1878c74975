// Tensor maps, TMA and wgmma on a GPU: products and copies with a launch plan, compared with float64. Every test is skipped,
// with the reason, without an sm_90a GPU.

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

#include "jit/cuda/context_scope.h"
#include "jit/executable.h"
#include "templates/half.h"
#include "tests/jit/cuda/nvrtc_fixture.h"
#include "tests/jit/cuda/tensor_map_kernels.h"

namespace tunesmith::test {
namespace {

static_assert(offsetof(TensorMapParams, maps) == 64 && sizeof(TensorMapParams) == 448, "as Params in the source");

// Ends the process if a kernel deadlocks, which would hang the GPU.
constexpr unsigned watchdog_s = 120;

std::int64_t padded(std::int64_t elements, std::int64_t to) { return (elements + to - 1) / to * to; }

/// An array (batch, heads, rows, cols) in device memory. Rows are padded to 16 bytes, plus 16 bytes that no kernel may
/// access.
struct Matrices {
  DType dtype;
  std::int64_t batch, heads, rows, cols;
  bool heads_inside;  ///< the layout is (batch, rows, heads, cols)
  std::vector<std::byte> host{};
  std::vector<float> values{};  ///< the elements of `host` as float
  void* device = nullptr;

  std::int64_t row_elements() const { return padded(cols, 16 / size_of(dtype)) + 16 / size_of(dtype); }
  std::int64_t row_stride() const { return row_elements() * (heads_inside ? heads : 1); }
  std::int64_t head_stride() const { return row_elements() * (heads_inside ? 1 : rows); }
  std::int64_t elements() const { return batch * heads * rows * row_elements(); }
  std::int64_t bytes() const { return elements() * size_of(dtype); }
  std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t col) const {
    return b * heads * rows * row_elements() + h * head_stride() + row * row_stride() + col;
  }
  double operator()(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t col) const {
    return values[static_cast<std::size_t>(at(b, h, row, col))];
  }
  void read() {
    values.resize(static_cast<std::size_t>(elements()));
    for (std::int64_t i = 0; i < elements(); ++i)
      values[static_cast<std::size_t>(i)] = static_cast<float>(read_element(dtype, host.data(), i));
  }

  /// Allocates the array, filled with NaN, or with random elements if `fill` is set.
  void make(bool fill, unsigned seed) {
    host.resize(static_cast<std::size_t>(bytes()));
    for (std::int64_t i = 0; i < elements(); ++i) write_element(dtype, host.data(), i, NAN);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    if (fill)
      for (std::int64_t z = 0; z < batch * heads; ++z)
        for (std::int64_t row = 0; row < rows; ++row)
          for (std::int64_t col = 0; col < cols; ++col)
            write_element(dtype, host.data(), at(z / heads, z % heads, row, col), normal(random));
    read();
  }

  LaunchPlan::TensorMap map(int array, std::uint32_t offset, std::int64_t box_rows) const {
    LaunchPlan::TensorMap map;
    map.array = array;
    map.offset = offset;
    map.dtype = dtype;
    map.rank = 4;
    map.sizes = {cols, rows, heads, batch};
    map.strides_bytes = {row_stride() * size_of(dtype), head_stride() * size_of(dtype), bytes() / batch};
    map.box = {64, box_rows, 1, 1};
    map.swizzle_bytes = 128;
    return map;
  }
};

struct Product {
  DType dtype;
  int columns;
  bool b_k_innermost, a_in_registers;
  std::int64_t batch, heads, m, n, k;  ///< n > columns requires that columns is a multiple of 64, the width of a store

  std::string entry() const {
    return "product_" + std::string(name(dtype)) + "_" + std::to_string(columns) + (b_k_innermost ? "_k" : "_n") +
           (a_in_registers ? "_registers" : "_shared");
  }
};

const Product products[] = {
    {DType::bf16, 128, true, false, 1, 1, 128, 128, 64},   {DType::bf16, 128, true, false, 2, 3, 300, 260, 200},
    {DType::f16, 64, true, false, 1, 2, 129, 65, 1000},    {DType::f16, 128, false, true, 2, 2, 200, 300, 333},
    {DType::bf16, 64, false, true, 1, 1, 64, 64, 128},     {DType::bf16, 256, false, false, 2, 1, 257, 500, 130},
    {DType::f16, 256, true, true, 1, 1, 1, 1, 1},          {DType::f16, 256, false, true, 1, 3, 500, 256, 700},
    {DType::bf16, 192, true, true, 1, 1, 192, 400, 320},   {DType::bf16, 8, true, false, 1, 1, 70, 8, 72},
    {DType::f16, 24, false, false, 1, 2, 128, 23, 200},    {DType::bf16, 40, true, true, 1, 1, 100, 33, 64},
    {DType::bf16, 96, false, true, 1, 1, 130, 90, 190},    {DType::f16, 112, true, false, 1, 1, 64, 112, 65},
    {DType::bf16, 160, false, false, 1, 1, 256, 151, 256}, {DType::f16, 176, true, false, 1, 1, 128, 176, 128},
    {DType::bf16, 232, true, true, 2, 1, 128, 225, 96},    {DType::f16, 248, false, false, 1, 1, 64, 248, 512},
    {DType::bf16, 128, true, false, 2, 8, 640, 256, 64},  // more tiles than multiprocessors
};

class TensorMapGpu : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    try {
      auto device = std::make_unique<CudaDevice>(0);
      if (name(device->info().arch) != "sm_90a") {
        why_skipped_ = device->info().name + " is of " + name(device->info().arch) + "; wgmma needs sm_90a";
        return;
      }
      std::string kernels = copy_source;
      for (const Product& product : products)
        if (kernels.find(" " + product.entry() + "(") == std::string::npos)
          kernels += product_kernel(product.entry(), std::string(name(product.dtype)), product.columns,
                                    product.b_k_innermost, product.a_in_registers);
      const Binary binary = NvrtcCompiler({.folders = test_folders(), .dump_folder = {}, .append_flags = {}})
                                .compile({"tensor_map_test.cu", tensor_map_source(kernels), device->info().arch});
      EXPECT_EQ(binary.log.find("(C75"), std::string::npos) << binary.log;
      module_ = device->load(binary);
      device_ = std::move(device);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::no_device && error.code() != ErrorCode::no_compiler) throw;
      why_skipped_ = error.what();
    }
  }
  static void TearDownTestSuite() {
    module_.reset();
    device_.reset();
  }
  void SetUp() override {
    if (!why_skipped_.empty()) GTEST_SKIP() << why_skipped_;
    alarm(watchdog_s);
  }
  void TearDown() override {
    alarm(0);
    for (void* const memory : memory_) device_->release(memory);
  }

  void* upload(const void* host, std::size_t bytes) {
    void* const memory = device_->allocate(bytes);
    memory_.push_back(memory);
    device_->copy_to_device(memory, host, bytes);
    return memory;
  }
  void upload(Matrices& matrices) { matrices.device = upload(matrices.host.data(), matrices.host.size()); }
  static void download(Matrices& matrices) {
    device_->copy_to_host(matrices.host.data(), matrices.device, matrices.host.size());
    matrices.read();
  }
  static LaunchPlan plan_for(const TensorMapParams& params, const char* entry, std::int64_t blocks, std::uint32_t threads,
                             std::int64_t smem_bytes) {
    LaunchPlan plan;
    plan.params.resize(sizeof params);
    std::memcpy(plan.params.data(), &params, sizeof params);
    KernelLaunch& launch = plan.kernels.emplace_back();
    launch.entry = entry;
    launch.grid.x = static_cast<std::uint32_t>(blocks);
    launch.block.x = threads;
    launch.dynamic_smem_bytes = smem_bytes;
    return plan;
  }
  void check(const Product& product);

  inline static std::string why_skipped_;
  inline static std::unique_ptr<CudaDevice> device_;
  inline static std::shared_ptr<Module> module_;
  std::vector<void*> memory_;
};

void TensorMapGpu::check(const Product& product) {
  const auto [dtype, columns, b_k_innermost, a_in_registers, batch, heads, m, n, k] = product;
  Matrices a{dtype, batch, heads, m, k, true}, d{dtype, batch, heads, m, n, true};
  Matrices b{dtype, batch, heads, b_k_innermost ? n : k, b_k_innermost ? k : n, false};
  a.make(true, 1);
  b.make(true, 2);
  d.make(false, 0);
  std::vector<float> c(static_cast<std::size_t>(batch * heads * m * n), NAN);
  upload(a);
  upload(b);
  upload(d);
  void* const c_device = upload(c.data(), c.size() * sizeof(float));

  TensorMapParams params{};
  params.m = static_cast<std::int32_t>(m);
  params.n = static_cast<std::int32_t>(n);
  params.k = static_cast<std::int32_t>(k);
  params.heads = static_cast<std::int32_t>(heads);
  const std::int64_t blocks = (n + columns - 1) / columns * ((m + 127) / 128) * heads * batch;
  const std::string entry = product.entry();
  LaunchPlan plan = plan_for(params, entry.c_str(), blocks, 384, product_smem_bytes(columns, b_k_innermost));
  plan.pointers = {{"a", offsetof(TensorMapParams, a), 16, a.bytes(), false, false, -1},
                   {"b", offsetof(TensorMapParams, b), 16, b.bytes(), false, false, -1},
                   {"c", offsetof(TensorMapParams, c), 16, static_cast<std::int64_t>(c.size()) * 4, true, false, -1},
                   {"d", offsetof(TensorMapParams, d), 16, d.bytes(), true, false, -1}};
  plan.tensor_maps = {a.map(0, offsetof(TensorMapParams, maps[0]), 128),
                      b.map(1, offsetof(TensorMapParams, maps[1]), b_k_innermost ? columns : 64),
                      d.map(3, offsetof(TensorMapParams, maps[2]), 64)};
  const Executable executable(*device_, module_, plan);
  for (int launch = 0; launch < 3; ++launch)
    executable.enqueue(std::array<void*, 4>{a.device, b.device, c_device, d.device}, nullptr);
  device_->synchronize(nullptr);
  device_->copy_to_host(c.data(), c_device, c.size() * sizeof(float));
  download(d);

  double worst = 0;
  for (std::int64_t z = 0; z < batch * heads; ++z) {
    for (std::int64_t row = 0; row < m; ++row) {
      const std::int64_t of_batch = z / heads, of_head = z % heads;
      for (std::int64_t col = 0; col < n; ++col) {
        double sum = 0, sum_of_magnitudes = 0;
        for (std::int64_t i = 0; i < k; ++i) {
          const double term =
              a(of_batch, of_head, row, i) * (b_k_innermost ? b(of_batch, of_head, col, i) : b(of_batch, of_head, i, col));
          sum += term;
          sum_of_magnitudes += std::fabs(term);
        }
        const double allowed = 1e-5 * sum_of_magnitudes;
        const float found = c[static_cast<std::size_t>((z * m + row) * n + col)];
        ASSERT_LE(std::fabs(found - sum), allowed) << entry << ": c[" << of_batch << "," << of_head << "," << row << ","
                                                   << col << "] is " << found << ", not " << sum;
        const double rounded = d(of_batch, of_head, row, col);
        ASSERT_LE(std::fabs(rounded - sum), allowed + 0.51 * spacing(dtype, sum))
            << entry << ": d[" << of_batch << "," << of_head << "," << row << "," << col << "] is " << rounded << ", not "
            << sum;
        worst = std::max(worst, std::fabs(found - sum) / sum_of_magnitudes);
      }
      // A store completes the last 16 bytes of a row (see launch.h), but writes nothing after them.
      for (std::int64_t col = padded(n, 16 / size_of(dtype)); col < d.row_elements(); ++col)
        ASSERT_TRUE(std::isnan(d(of_batch, of_head, row, col))) << entry << ": the store goes beyond the array";
    }
  }
  std::printf("%s, %lld blocks: largest error %.2g of the sum of magnitudes\n", entry.c_str(),
              static_cast<long long>(blocks), worst);
}

TEST_F(TensorMapGpu, ProductsAgreeWithFloat64) {
  for (const Product& product : products) {
    alarm(watchdog_s);
    check(product);
  }
}

TEST_F(TensorMapGpu, CopiesFiveDimensionalBoxesAndFillsWithZeros) {
  constexpr std::int64_t in_cols = 20, in_row = 24, out_cols = 28, out_row = 32, rows = 3 * 5 * 2 * 3;
  std::vector<float> in(rows * in_row, NAN), out(rows * out_row, NAN);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t col = 0; col < in_cols; ++col)
      in[static_cast<std::size_t>(row * in_row + col)] = static_cast<float>(row * 100 + col);
  void* const from = upload(in.data(), in.size() * sizeof(float));
  void* const to = upload(out.data(), out.size() * sizeof(float));
  LaunchPlan plan = plan_for({}, "copy_boxes", 6, 64, 1024 + 2048 + 64);
  plan.pointers = {{"a", offsetof(TensorMapParams, a), 16, rows * in_row * 4, false, false, -1},
                   {"d", offsetof(TensorMapParams, d), 16, rows * out_row * 4, true, false, -1}};
  const auto map = [](int array, std::uint32_t offset, std::int64_t cols, std::int64_t row) {
    LaunchPlan::TensorMap made;
    made.array = array;
    made.offset = offset;
    made.dtype = DType::f32;
    made.rank = 5;
    made.sizes = {cols, 3, 5, 2, 3};
    made.strides_bytes = {row * 4, row * 4 * 3, row * 4 * 15, row * 4 * 30};
    made.box = {16, 3, 5, 2, 1};
    made.swizzle_bytes = 64;
    return made;
  };
  plan.tensor_maps = {map(0, offsetof(TensorMapParams, maps[0]), in_cols, in_row),
                      map(1, offsetof(TensorMapParams, maps[2]), out_cols, out_row)};
  const Executable executable(*device_, module_, plan);
  executable.enqueue(std::array<void*, 2>{from, to}, nullptr);
  device_->synchronize(nullptr);
  device_->copy_to_host(out.data(), to, out.size() * sizeof(float));
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t col = 0; col < out_row; ++col) {
      const float found = out[static_cast<std::size_t>(row * out_row + col)];
      if (col >= out_cols) {
        EXPECT_TRUE(std::isnan(found)) << "row " << row << ", column " << col << " is beyond the array";
      } else {
        EXPECT_EQ(found, col < in_cols ? static_cast<float>(row * 100 + col) : 0) << "row " << row << ", column " << col;
      }
    }
}

TEST_F(TensorMapGpu, StoresMatricesTransposed) {
  std::vector<std::uint16_t> in(256), out(256);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint16_t>(i);
  void* const from = upload(in.data(), 512);
  void* const to = upload(out.data(), 512);
  LaunchPlan plan = plan_for({}, "transpose", 1, 32, 0);
  plan.pointers = {{"a", offsetof(TensorMapParams, a), 16, 512, false, false, -1},
                   {"d", offsetof(TensorMapParams, d), 16, 512, true, false, -1}};
  Executable(*device_, module_, plan).enqueue(std::array<void*, 2>{from, to}, nullptr);
  device_->synchronize(nullptr);
  device_->copy_to_host(out.data(), to, 512);
  for (std::size_t matrix = 0; matrix < 4; ++matrix)
    for (std::size_t row = 0; row < 8; ++row)
      for (std::size_t col = 0; col < 8; ++col)
        EXPECT_EQ(out[64 * matrix + 8 * row + col], 64 * matrix + 8 * col + row) << matrix << ": " << row << "," << col;
}

// Every launch encodes the maps. The budget is a few hundred nanoseconds; otherwise they must be cached between launches.
TEST_F(TensorMapGpu, EncodingIsCheap) {
  const Matrices a{DType::bf16, 2, 8, 4096, 128, true};
  void* const memory = device_->allocate(static_cast<std::size_t>(a.bytes()));
  memory_.push_back(memory);
  const auto prepared = device_->prepare_tensor_map(a.map(0, 64, 128), "a");
  alignas(64) std::byte map[128];
  constexpr int repeats = 20000;
  prepared->encode(map, memory);
  const auto measure = [&] {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) prepared->encode(map, memory);
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / repeats;
  };
  const double without_context_ns = measure();
  std::printf("encoding a tensor map: %.0f ns from a thread without a context\n", without_context_ns);
  EXPECT_LT(without_context_ns, 20000);
  const ContextScope scope(*device_);
  const double ns = measure();
  std::printf("encoding a tensor map: %.0f ns\n", ns);
  RecordProperty("encode_ns", std::to_string(ns));
  EXPECT_LT(ns, 2000);
}

}  // namespace
}  // namespace tunesmith::test
