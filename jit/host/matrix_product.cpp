// Layouts follow the PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", as in templates/device/wgmma.cuh. The
// arithmetic follows; ResidentGroup's part is at the end.
#include "jit/host/matrix_product.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "core/half.h"
#include "jit/host/resident_group.h"
#include "jit/host/tensor_map.h"

namespace tunesmith::host {
namespace {

using Product = tunesmith_host_abi::MatrixProduct;
constexpr int k_depth = 16;
using Line = std::array<float, k_depth>;  // a row of A or a column of B

std::vector<float> make_table(DType dtype) {
  std::vector<float> table(1 << 16);
  for (std::size_t bits = 0; bits < table.size(); ++bits) {
    const auto element = static_cast<std::uint16_t>(bits);
    std::byte bytes[sizeof element];
    std::memcpy(bytes, &element, sizeof element);
    table[bits] = static_cast<float>(read_element(dtype, bytes, 0));
  }
  return table;
}

/// Returns the values of all 16-bit patterns.
const float* values_of(bool is_bf16) {
  static const std::vector<float> bf16 = make_table(DType::bf16), f16 = make_table(DType::f16);
  return (is_bf16 ? bf16 : f16).data();
}

/// A matrix in shared memory that a descriptor describes.
class Matrix {
 public:
  Matrix(std::uint64_t descriptor, const SharedMemory& memory, std::size_t block, const float* values)
      : memory_(memory),
        block_(block),
        values_(values),
        base_(field(descriptor, 0)),
        leading_(field(descriptor, 16)),
        stride_(field(descriptor, 32)) {
    constexpr int swizzles[] = {0, 128, 64, 32};
    swizzle_bytes_ = swizzles[descriptor >> 62];
    offset_ = (descriptor >> 49 & 7) != 0;
  }

  bool has_base_offset() const { return offset_; }
  bool is_swizzled() const { return swizzle_bytes_ != 0; }

  /// Reads the 16 elements along k of line `n`, if k is innermost. Returns false if they are not in shared memory.
  bool read_k_innermost(int n, Line& line) const {
    const auto group = static_cast<std::uint32_t>(n / 8), row = static_cast<std::uint32_t>(n % 8);
    for (std::uint32_t half = 0; half < 2; ++half) {
      const std::uint32_t address =
          is_swizzled() ? base_ + group * stride_ + row * static_cast<std::uint32_t>(swizzle_bytes_) + half * 16
                        : base_ + group * stride_ + half * leading_ + row * 16;
      std::uint16_t elements[8];
      if (!read(address, elements)) return false;
      for (std::size_t i = 0; i < 8; ++i) line[half * 8 + i] = values_[elements[i]];
    }
    return true;
  }
  /// The same of lines `n`, which is even, and n + 1, if n is innermost.
  bool read_n_innermost(int n, Line& line, Line& next) const {
    const int columns = swizzle_bytes_ / 2;
    const std::uint32_t first =
        base_ + static_cast<std::uint32_t>(n / columns) * leading_ + static_cast<std::uint32_t>(n % columns) * 2;
    for (std::uint32_t k = 0; k < k_depth; ++k) {
      std::uint16_t elements[2];
      if (!read(first + k / 8 * stride_ + k % 8 * static_cast<std::uint32_t>(swizzle_bytes_), elements)) return false;
      line[k] = values_[elements[0]];
      next[k] = values_[elements[1]];
    }
    return true;
  }

 private:
  static constexpr std::uint32_t window_mask = (1u << 18) - 1;

  static std::uint32_t field(std::uint64_t descriptor, int shift) {
    return static_cast<std::uint32_t>(descriptor >> shift & 0x3fff) << 4;
  }
  template <std::size_t count>
  bool read(std::uint32_t address, std::uint16_t (&to)[count]) const {
    const unsigned char* const from = memory_.at(block_, swizzled(address & window_mask, swizzle_bytes_), sizeof to);
    if (from != nullptr) std::memcpy(to, from, sizeof to);
    return from != nullptr;
  }

  const SharedMemory& memory_;
  const std::size_t block_;
  const float* const values_;
  const std::uint32_t base_, leading_, stride_;
  int swizzle_bytes_;
  bool offset_;
};

}  // namespace

const char* multiply(const Product& product, const SharedMemory& memory, std::size_t block, std::uint32_t thread) {
  constexpr const char* outside = "multiplies a matrix that is not all in shared memory";
  const float* const values = values_of(product.is_bf16);
  const auto lane = static_cast<int>(thread % 32), warp = static_cast<int>(thread / 32 % 4);
  const Matrix a(product.a, memory, block, values), b(product.b, memory, block, values);
  if (b.has_base_offset() || (!product.a_in_registers && a.has_base_offset()))
    return "multiplies a matrix with a base offset, which the host executor does not know";
  if ((product.n_innermost && !b.is_swizzled()) || (product.m_innermost && !a.is_swizzled()))
    return "multiplies a matrix with m or n innermost and no swizzle, which the host executor does not know";
  std::array<Line, 2> rows;
  for (int i = 0; i < 2; ++i) {
    Line& row = rows[static_cast<std::size_t>(i)];
    if (product.a_in_registers) {
      std::transform(std::begin(product.rows[i]), std::end(product.rows[i]), row.begin(),
                     [&](unsigned short bits) { return values[bits]; });
    } else if (const int line = 16 * warp + lane / 4 + 8 * i; product.m_innermost) {
      Line pair[2];
      if (!a.read_n_innermost(line & ~1, pair[0], pair[1])) return outside;
      row = pair[line & 1];
    } else if (!a.read_k_innermost(line, row)) {
      return outside;
    }
  }
  for (int i = 0; i < product.n / 8; ++i) {  // this thread has two columns of every 8
    const int column = 8 * i + lane % 4 * 2;
    std::array<Line, 2> columns;
    if (!(product.n_innermost ? b.read_n_innermost(column, columns[0], columns[1])
                              : b.read_k_innermost(column, columns[0]) && b.read_k_innermost(column + 1, columns[1])))
      return outside;
    for (std::size_t at = 0; at < 4; ++at) {
      const Line &row = rows[at / 2], &line = columns[at % 2];
      float& d = product.d[4 * i + static_cast<int>(at)];
      double sum = product.accumulates ? static_cast<double>(d) : 0.0;
      for (std::size_t k = 0; k < k_depth; ++k) sum += static_cast<double>(row[k]) * static_cast<double>(line[k]);
      d = static_cast<float>(sum);
    }
  }
  return nullptr;
}

// ---- Order --------------------------------------------------------------------------------------------------------------

// Accumulators are NaN while a product is in flight (unless an earlier one with the same accumulators completes first), and
// operands are read when the thread waits and no other thread can run. So a kernel that reads or changes accumulators, or
// lets others overwrite operands, before it waits fails here every time.

void ResidentGroup::product(abi::Thread& thread, const Product& product) {
  Fiber& fiber = fiber_of(thread);
  const auto count = static_cast<std::size_t>(product.n / 2);
  bool follows = false;  // an earlier product with the same accumulators
  for (const PendingProduct& earlier : fiber.products) {
    const Product& other = earlier.product;
    if (other.d + other.n / 2 <= product.d || product.d + count <= other.d) continue;
    if (other.d != product.d || other.n != product.n)
      fail(fiber, "multiplies into a part of the accumulators of a product in flight");
    follows = true;
  }
  PendingProduct& pending = fiber.products.emplace_back();
  pending.product = product;
  pending.group = fiber.product_groups;
  if (product.accumulates && !follows) pending.before.assign(product.d, product.d + count);
  std::fill_n(product.d, count, std::numeric_limits<float>::quiet_NaN());
}

void ResidentGroup::product_commit(abi::Thread& thread) { ++fiber_of(thread).product_groups; }

void ResidentGroup::product_wait(abi::Thread& thread, unsigned pending) {
  Fiber& fiber = fiber_of(thread);
  const std::uint32_t complete_groups = fiber.product_groups - std::min(fiber.product_groups, pending);
  if (!fiber.products.empty() && fiber.products.front().group < complete_groups)
    fiber.group->poll(fiber, Wait::product_wait);
  auto at = fiber.products.begin();
  for (; at != fiber.products.end() && at->group < complete_groups; ++at) {
    std::copy(at->before.begin(), at->before.end(), at->product.d);
    const char* const wrong = multiply(at->product, fiber.group->shared_, fiber.block, fiber.thread);
    if (wrong != nullptr) fail(fiber, wrong);
  }
  fiber.products.erase(fiber.products.begin(), at);
  // Later products with these accumulators are still in flight: the first of them starts from what is there now.
  for (auto next = fiber.products.begin(); next != fiber.products.end(); ++next) {
    const Product& product = next->product;
    const auto same = [&](const PendingProduct& earlier) { return earlier.product.d == product.d; };
    if (!product.accumulates || !next->before.empty() || std::any_of(fiber.products.begin(), next, same)) continue;
    const auto count = static_cast<std::size_t>(product.n / 2);
    next->before.assign(product.d, product.d + count);
    std::fill_n(product.d, count, std::numeric_limits<float>::quiet_NaN());
  }
}

}  // namespace tunesmith::host
