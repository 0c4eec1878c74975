#pragma once
// What tensor maps, TMA, barriers and wgmma must do, on a GPU and on the host executor: products and copies with a launch
// plan, compared with float64.

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/half.h"
#include "jit/device.h"
#include "tests/jit/cuda/tensor_map_kernels.h"

namespace tunesmith::test {

inline std::int64_t padded(std::int64_t elements, std::int64_t to) { return (elements + to - 1) / to * to; }

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

inline const Product products[] = {
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

/// Runs the kernels of all_kernels() on a device and checks their results with GoogleTest's assertions.
class TensorMapChecks {
 public:
  /// The source of every kernel of these checks.
  static std::string all_kernels();

  TensorMapChecks(Device& device, std::shared_ptr<Module> module) : device_(device), module_(std::move(module)) {}
  ~TensorMapChecks();
  TensorMapChecks(const TensorMapChecks&) = delete;
  TensorMapChecks& operator=(const TensorMapChecks&) = delete;

  void agrees_with_float64(const Product& product);
  void copies_five_dimensional_boxes_and_fills_with_zeros();
  void stores_matrices_transposed();

  void* upload(const void* host, std::size_t bytes);

 private:
  void upload(Matrices& matrices) { matrices.device = upload(matrices.host.data(), matrices.host.size()); }
  void download(Matrices& matrices);

  Device& device_;
  const std::shared_ptr<Module> module_;
  std::vector<void*> memory_;
};

}  // namespace tunesmith::test
