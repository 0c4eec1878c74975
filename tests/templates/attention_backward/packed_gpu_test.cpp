// Packed sequences of attention's backward pass on a GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/gpu_kernels.h"
#include "tests/templates/attention_backward/device_problem.h"
#include "tunesmith/tunesmith.h"

namespace tunesmith {
namespace {

// NaN in other packed sequences and after the last one does not reach a gradient.
class AttentionBackwardGpuPacked : public test::GpuKernels {};

TEST_F(AttentionBackwardGpuPacked, SequencesAreIndependent) {
  constexpr std::int32_t starts[] = {0, 70, 71, 71, 333, 700};
  constexpr std::int64_t batch = std::size(starts) - 1, tail = 20, total = starts[batch] + tail, heads = 2;
  struct Packed {
    const char* config;
    bool exact;  ///< equal sequences have equal gradients
  };
  for (const std::int64_t head_dim : {64, 128, 256})
    for (const auto& [config, exact] : {Packed{"wgmma,kernels=1", true}, Packed{"wgmma,kernels=1", false},
                                        Packed{"wgmma,kernels=2", true}, Packed{"mma", true}, Packed{"simt", true}}) {
      const bool is_wgmma = std::string_view(config).starts_with("wgmma");
      if (is_wgmma && name(device().info().arch) != "sm_90a") continue;
      const std::string where = std::string(config) + ", head_dim " + std::to_string(head_dim) + ", ";
      AttentionBackwardProblem typed{{.batch = batch, .heads = heads, .seq_q = 400, .head_dim = head_dim}};
      typed.varlen = true;
      typed.total_q = typed.total_kv = total;
      typed.dlse = true;
      typed.deterministic = is_wgmma && exact;
      const Problem problem = find_op("attention_backward").normalize(to_problem(typed));
      const ParsedProblemPtr parsed = find_op("attention_backward").parse(problem);
      PrepareOptions options;
      options.config.fields = parse_fields(std::string("variant=") + config, "config");
      const Plan plan = engine_->prepare(problem, options);
      const auto run = [&](bool poisoned) {
        test::DeviceProblem on_device(*engine_, *parsed);
        for (const char* name : {"cu_seqlens_q", "cu_seqlens_kv"}) {
          std::memcpy(on_device.host(name).data(), starts, sizeof starts);
          on_device.send(name);
        }
        auto* const lse = reinterpret_cast<float*>(on_device.host("lse").data());  // it was filled for other lengths
        for (std::int64_t i = 0; i < heads * total; ++i) lse[i] = 6 + 0.01f * static_cast<float>(i % 17);
        const auto poison = [&](std::int64_t begin, std::int64_t end) {
          for (const char* name : {"q", "k", "v", "o", "dout"}) {
            auto* const elements = reinterpret_cast<std::uint16_t*>(on_device.host(name).data());
            std::fill(elements + begin * heads * head_dim, elements + end * heads * head_dim, std::uint16_t{0x7fc0});
          }
          for (const char* name : {"lse", "dlse"}) {
            auto* const elements = reinterpret_cast<float*>(on_device.host(name).data());
            for (std::int64_t h = 0; h < heads; ++h)
              std::fill(elements + h * total + begin, elements + h * total + end, std::numeric_limits<float>::quiet_NaN());
          }
        };
        if (poisoned) {
          for (std::int64_t b = 1; b < batch; b += 2) poison(starts[b], starts[b + 1]);
          poison(starts[batch], total);
        }
        for (const char* name : {"q", "k", "v", "o", "dout", "lse", "dlse"}) on_device.send(name);
        plan.launch(on_device.addresses());
        engine_->synchronize();
        std::map<std::string, std::vector<std::byte>> gradients;
        for (const char* name : {"dq", "dk", "dv"}) gradients[name] = on_device.fetch(name);
        return gradients;
      };
      auto clean = run(false), poisoned = run(true);
      for (const std::string name : {"dq", "dk", "dv"}) {
        const auto* const a = reinterpret_cast<const std::uint16_t*>(clean[name].data());
        const auto* const b = reinterpret_cast<const std::uint16_t*>(poisoned[name].data());
        for (std::int64_t s = 0; s < batch; s += 2)
          for (std::int64_t i = starts[s] * heads * head_dim; i < starts[s + 1] * heads * head_dim; ++i) {
            ASSERT_LT(b[i] & 0x7fff, 0x7f80) << where << name << ", sequence " << s;  // finite
            if (exact || name != "dq") {                                              // wgmma sums dq in any order
              ASSERT_EQ(a[i], b[i]) << where << name << ", sequence " << s;
            }
          }
        // Check that the poison was present.
        EXPECT_GT(b[starts[1] * heads * head_dim] & 0x7fff, 0x7f80) << where << name;
        for (std::int64_t i = starts[batch] * heads * head_dim; i < total * heads * head_dim; ++i)
          ASSERT_EQ(b[i], 0xFFFF) << where << name << " after the last sequence was written";
      }
    }
}

}  // namespace
}  // namespace tunesmith
