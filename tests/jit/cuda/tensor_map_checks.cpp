#include "tests/jit/cuda/tensor_map_checks.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "jit/executable.h"

namespace tunesmith::test {
namespace {

static_assert(offsetof(TensorMapParams, maps) == 64 && sizeof(TensorMapParams) == 448, "as Params in the source");

LaunchPlan plan_for(const TensorMapParams& params, const char* entry, std::int64_t blocks, std::uint32_t threads,
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

}  // namespace

std::string TensorMapChecks::all_kernels() {
  std::string kernels = copy_source;
  for (const Product& product : products)
    if (kernels.find(" " + product.entry() + "(") == std::string::npos)
      kernels += product_kernel(product.entry(), std::string(name(product.dtype)), product.columns, product.b_k_innermost,
                                product.a_in_registers);
  return tensor_map_source(kernels);
}

TensorMapChecks::~TensorMapChecks() {
  for (void* const memory : memory_) device_.release(memory);
}

void* TensorMapChecks::upload(const void* host, std::size_t bytes) {
  void* const memory = device_.allocate(bytes);
  memory_.push_back(memory);
  device_.copy_to_device(memory, host, bytes);
  return memory;
}

void TensorMapChecks::download(Matrices& matrices) {
  device_.copy_to_host(matrices.host.data(), matrices.device, matrices.host.size());
  matrices.read();
}

void TensorMapChecks::agrees_with_float64(const Product& product) {
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
  const Executable executable(device_, module_, plan);
  // A GPU runs the kernel again, with other timing.
  for (int launch = 0; launch < (device_.info().kind == DeviceInfo::Kind::host ? 1 : 3); ++launch)
    executable.enqueue(std::array<void*, 4>{a.device, b.device, c_device, d.device}, nullptr);
  device_.synchronize(nullptr);
  device_.copy_to_host(c.data(), c_device, c.size() * sizeof(float));
  download(d);

  double worst = 0;
  std::vector<double> lines(static_cast<std::size_t>(n * k)), line(static_cast<std::size_t>(k));
  for (std::int64_t z = 0; z < batch * heads; ++z) {
    const std::int64_t of_batch = z / heads, of_head = z % heads;
    for (std::int64_t i = 0; i < n * k; ++i)
      lines[static_cast<std::size_t>(i)] =
          b_k_innermost ? b(of_batch, of_head, i / k, i % k) : b(of_batch, of_head, i % k, i / k);
    for (std::int64_t row = 0; row < m; ++row) {
      for (std::int64_t i = 0; i < k; ++i) line[static_cast<std::size_t>(i)] = a(of_batch, of_head, row, i);
      for (std::int64_t col = 0; col < n; ++col) {
        double sum = 0, sum_of_magnitudes = 0;
        const double* const other = &lines[static_cast<std::size_t>(col * k)];
        for (std::size_t i = 0; i < line.size(); ++i) {
          const double term = line[i] * other[i];
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

void TensorMapChecks::copies_five_dimensional_boxes_and_fills_with_zeros() {
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
  const Executable executable(device_, module_, plan);
  executable.enqueue(std::array<void*, 2>{from, to}, nullptr);
  device_.synchronize(nullptr);
  device_.copy_to_host(out.data(), to, out.size() * sizeof(float));
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

void TensorMapChecks::stores_matrices_transposed() {
  std::vector<std::uint16_t> in(256), out(256);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint16_t>(i);
  void* const from = upload(in.data(), 512);
  void* const to = upload(out.data(), 512);
  LaunchPlan plan = plan_for({}, "transpose", 1, 32, 0);
  plan.pointers = {{"a", offsetof(TensorMapParams, a), 16, 512, false, false, -1},
                   {"d", offsetof(TensorMapParams, d), 16, 512, true, false, -1}};
  Executable(device_, module_, plan).enqueue(std::array<void*, 2>{from, to}, nullptr);
  device_.synchronize(nullptr);
  device_.copy_to_host(out.data(), to, 512);
  for (std::size_t matrix = 0; matrix < 4; ++matrix)
    for (std::size_t row = 0; row < 8; ++row)
      for (std::size_t col = 0; col < 8; ++col)
        EXPECT_EQ(out[64 * matrix + 8 * row + col], 64 * matrix + 8 * col + row) << matrix << ": " << row << "," << col;
}

}  // namespace tunesmith::test
