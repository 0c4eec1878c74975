// Sums of dq that do not fit into 2^31 floats, in wgmma's one kernel on a GPU: sampled rows are compared with float64. Rows
// of q and dout overlap and o is periodic, so that little is drawn; dq, o and the workspace take 20 GB.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/half.h"
#include "tests/support/cases.h"
#include "tests/support/gpu_kernels.h"
#include "tunesmith/buffer.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using test::Case;

constexpr std::int64_t heads = 64, seq_q = 300000, seq_kv = 256, head_dim = 128;
constexpr std::int64_t seq_stride = 8, head_stride = 8000;  // of q and dout
constexpr std::int64_t period = 31249 * head_dim;           // of o

/// A number in (-1, 1) for each index and array.
float value(std::uint64_t index, std::uint64_t array) {
  std::uint64_t bits = (index + 1) * 0x9E3779B97F4A7C15U + array * 0xD1B54A32D192ED03U;
  bits = (bits ^ (bits >> 32)) * 0xD6E8FEB86659FD93U;
  return static_cast<float>(static_cast<std::int64_t>(bits) >> 40) * 0x1p-23f;
}

class AttentionBackwardLargeSumsGpu : public test::GpuKernels {
 protected:
  void SetUp() override {
    test::GpuKernels::SetUp();
    if (IsSkipped()) return;
    if (name(device().info().arch) != "sm_90a") GTEST_SKIP() << "wgmma is sm_90a's";
    std::string fields = "heads=64,seq_q=300000,seq_kv=256,head_dim=128";
    for (const char* array : {"q", "dout"})
      fields += std::string(",") + array + "_seq_stride=8," + array + "_head_stride=8000";
    problem_ = test::normalized("attention_backward", fields);
    std::uint64_t number = 0;
    for (const ArrayInfo& info : find_op("attention_backward").parse(problem_)->arrays()) {
      const auto bytes = static_cast<std::size_t>(info.extent_bytes());
      try {
        buffers_.emplace_back(*engine_, bytes);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::out_of_memory) throw;
        GTEST_SKIP() << error.what();
      }
      addresses_.push_back(buffers_.back().data());
      if (info.output) {
        if (info.name == "dq") dq_ = buffers_.size() - 1;
        continue;
      }
      const std::size_t element = static_cast<std::size_t>(size_of(info.dtype));
      std::vector<float>& numbers = inputs_[info.name];
      numbers.resize(info.name == "o" ? static_cast<std::size_t>(period) : bytes / element);
      std::vector<std::byte> filled(numbers.size() * element);
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const auto index = static_cast<std::int64_t>(i);
        const float drawn = value(i, number);
        write_element(info.dtype, filled.data(), index, info.name == "lse" ? 5 + drawn : drawn);
        numbers[i] = static_cast<float>(read_element(info.dtype, filled.data(), index));
      }
      ++number;
      for (std::size_t begin = 0; begin < bytes; begin += filled.size())
        buffers_.back().copy_from_host(filled.data(), std::min(filled.size(), bytes - begin), begin);
    }
  }

  /// Compares dq of a query with float64, by the formulas of attention_backward.h.
  void check_row(std::int64_t head, std::int64_t query) const {
    const float* const q = at("q", head, query);
    const float* const o = &inputs_.at("o")[static_cast<std::size_t>((query * heads + head) * head_dim % period)];
    const float* const dout = at("dout", head, query);
    const double scale = 1 / std::sqrt(static_cast<double>(head_dim)),
                 lse = inputs_.at("lse")[static_cast<std::size_t>(head * seq_q + query)];
    const auto dot = [](const float* a, const float* b) {
      double sum = 0;
      for (std::int64_t c = 0; c < head_dim; ++c) sum += static_cast<double>(a[c]) * static_cast<double>(b[c]);
      return sum;
    };
    const double delta = dot(o, dout);
    std::array<double, head_dim> want{}, size{};
    for (std::int64_t key = 0; key < seq_kv; ++key) {
      const auto row = static_cast<std::size_t>((key * heads + head) * head_dim);
      const float* const k = &inputs_.at("k")[row];
      const double ds = std::exp(scale * dot(q, k) - lse) * (dot(dout, &inputs_.at("v")[row]) - delta);
      for (std::size_t c = 0; c < head_dim; ++c) {
        want[c] += scale * ds * static_cast<double>(k[c]);
        size[c] += std::fabs(scale * ds * static_cast<double>(k[c]));
      }
    }
    std::array<std::byte, 2 * head_dim> row{};
    buffers_[dq_].copy_to_host(row.data(), row.size(), static_cast<std::size_t>(query * heads + head) * row.size());
    for (std::size_t c = 0; c < head_dim; ++c)
      ASSERT_NEAR(read_element(DType::bf16, row.data(), static_cast<std::int64_t>(c)), want[c],
                  0x1p-8 * (std::fabs(want[c]) + size[c]))
          << "head " << head << ", query " << query << ", column " << c;
  }

  Problem problem_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<void*> addresses_;
  std::size_t dq_ = 0;

 private:
  const float* at(const char* array, std::int64_t head, std::int64_t query) const {
    return &inputs_.at(array)[static_cast<std::size_t>(head * head_stride + query * seq_stride)];
  }

  std::map<std::string, std::vector<float>> inputs_;
};

TEST_F(AttentionBackwardLargeSumsGpu, Beyond2To31Floats) {
  constexpr std::int64_t rows_of_head = (seq_q + 127) / 128 * 128, first = (std::int64_t{1} << 31) / head_dim;
  static_assert(heads * rows_of_head > first);
  std::set<std::pair<std::int64_t, std::int64_t>> sample;
  for (std::int64_t head = 0; head < heads; head += 3)
    for (std::int64_t i = 0; i < 6; ++i) sample.insert({head, (seq_q - 1) * i / 5});
  for (std::int64_t part = 1; part <= 4; ++part)  // around 2^29, 2^30 and 2^31 floats
    for (std::int64_t near = -64; near <= 64; near += 16)
      sample.insert({(part * first / 4 + near) / rows_of_head, (part * first / 4 + near) % rows_of_head});
  for (const char* config : {"kernels=1,adders=1,ahead=0", "kernels=1,adders=0"}) {
    const Case c = test::case_of(problem_, device().info(), std::string("variant=wgmma,") + config);
    ASSERT_GT(c.op().parse(problem_)->launch_plan(c.config, device().info()).workspace_bytes, std::int64_t{4} << 31);
    const std::vector<std::uint16_t> nan(static_cast<std::size_t>(heads * head_dim), std::uint16_t{0x7fc0});
    for (const auto& [head, query] : sample)
      buffers_[dq_].copy_from_host(nan.data(), nan.size() * 2, static_cast<std::size_t>(query) * nan.size() * 2);
    executable_of(c)->enqueue(addresses_, nullptr);
    engine_->synchronize();
    for (const auto& [head, query] : sample) {
      check_row(head, query);
      if (HasFatalFailure()) FAIL() << config;
    }
  }
}

}  // namespace
}  // namespace tunesmith
