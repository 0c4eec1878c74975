// Packed sequences of attention's backward pass on the host executor: NaN and inf in other sequences and after the last one
// reach no gradient, and sequences of length 0 leave their neighbours alone.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/half.h"
#include "tests/support/host_kernels.h"
#include "tests/support/mutations.h"
#include "tests/templates/attention/mods.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::AttentionArraysOnHost;
using test::Case;

constexpr std::int64_t heads = 2;
/// Three ordinary sequences, one without queries, one without keys, one without either, and an ordinary one.
constexpr std::int32_t q_starts[] = {0, 37, 38, 68, 68, 103, 103, 130}, kv_starts[] = {0, 20, 90, 101, 111, 111, 111, 150};
constexpr std::int64_t batch = std::size(q_starts) - 1;
/// Rows after the last sequence, which belong to none.
constexpr std::int64_t tail = 20;

/// Both parities: the ordinary sequence 1 has poisoned neighbours before and after it, and so has 2. Parity 2: none.
bool is_poisoned(std::int64_t sequence, std::int64_t parity) { return sequence % 2 == parity; }

class AttentionBackwardPacked : public test::HostKernels {
 protected:
  /// Runs the kernels on random inputs. `poison` replaces all inputs of the sequences of this parity and of the tail.
  AttentionArraysOnHost run(const Case& c, const Executable& executable, float poison = 0, std::int64_t parity = 0) {
    AttentionArraysOnHost arrays(c.problem, 3);
    std::memcpy(arrays["cu_seqlens_q"].data, q_starts, sizeof q_starts);
    std::memcpy(arrays["cu_seqlens_kv"].data, kv_starts, sizeof kv_starts);
    const std::int64_t total_q = c.problem.fields.integer("total_q");
    for (std::int64_t i = 0; i < heads * total_q; ++i)  // o and lse were filled for other lengths
      write_element(DType::f32, arrays["lse"].data, i, 3 + 0.01f * static_cast<float>(i % 17));
    const auto fill = [&](const char* name, std::span<const std::int32_t> starts, bool by_heads) {
      const HostArray& array = arrays[name];
      const std::int64_t total = starts[batch] + tail,
                         per_position = array.info.elements() / (by_heads ? heads * total : total);
      const auto fill_rows = [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t part = 0; part < (by_heads ? heads : 1); ++part)
          for (std::int64_t i = (part * total + begin) * per_position; i < (part * total + end) * per_position; ++i)
            write_element(array.info.dtype, array.data, i, poison);
      };
      for (std::size_t b = 0; b < batch; ++b)
        if (is_poisoned(static_cast<std::int64_t>(b), parity)) fill_rows(starts[b], starts[b + 1]);
      fill_rows(starts[batch], total);
    };
    if (poison != 0) {
      for (const char* name : {"q", "o", "dout"}) fill(name, q_starts, false);
      for (const char* name : {"k", "v"}) fill(name, kv_starts, false);
      for (const char* name : {"lse", "dlse"}) fill(name, q_starts, true);
    }
    std::vector<void*> addresses;
    for (const HostArray& array : arrays.all()) {
      if (array.info.output) std::memset(array.data, 0xFF, static_cast<std::size_t>(array.info.extent_bytes()));
      addresses.push_back(array.data);
    }
    executable.enqueue(addresses, nullptr);
    return arrays;
  }

  /// Expects the poison in a gradient of the sequences of this parity, the same bits as without poison in the others, and
  /// nothing written to the tail.
  static void compare(const Case& c, const char* name, const AttentionArraysOnHost& clean,
                      const AttentionArraysOnHost& poisoned, std::int64_t parity) {
    const std::span<const std::int32_t> starts = name[1] == 'q' ? q_starts : kv_starts;
    const std::int64_t width = clean[name].info.elements() / (starts[batch] + tail);
    bool arrived = false;
    for (std::size_t b = 0; b < batch; ++b)
      for (std::int64_t i = starts[b] * width; i < starts[b + 1] * width; ++i) {
        const double a = clean.real(name, i), p = poisoned.real(name, i);
        ASSERT_TRUE(std::isfinite(a)) << c.text() << ": " << name << "[" << i << "]";  // every element is written
        if (is_poisoned(static_cast<std::int64_t>(b), parity))
          arrived = arrived || std::isnan(p);
        else
          ASSERT_EQ(a, p) << c.text() << ": " << name << "[" << i << "], sequence " << b;
        // Without keys or without queries all gradients are zeros.
        if (q_starts[b] == q_starts[b + 1] || kv_starts[b] == kv_starts[b + 1]) {
          ASSERT_EQ(p, 0) << c.text() << ": " << name << "[" << i << "], sequence " << b;
        }
      }
    EXPECT_EQ(arrived, parity < 2) << c.text() << ": " << name;  // the poison was there
    for (const auto* const arrays : {&clean, &poisoned}) {
      const HostArray& array = (*arrays)[name];
      const std::int64_t row_bytes = width * size_of(array.info.dtype);
      for (std::int64_t i = starts[batch] * row_bytes; i < (starts[batch] + tail) * row_bytes; ++i)
        ASSERT_EQ(array.data[i], std::byte{0xFF})
            << c.text() << ": " << name << ", byte " << i << " after the last sequence";
    }
  }
};

TEST_F(AttentionBackwardPacked, NaNAndInfOfOtherRowsReachNoGradient) {
  const DeviceInfo hopper = generic_device(parse_arch("sm_90a"));
  std::vector<Case> cases;
  int number = 0;
  for (const char* more : {"", ",causal=bottom-right,sinks=1,dsinks=1,alibi=1,dslopes=1",
                           ",window_left=9,dropout=0.3,softcap=5", ",head_dim=128,head_dim_v=24"}) {
    ++number;
    for (const auto& [dtype, config] :
         std::vector<std::pair<std::string, std::string>>{{"f32", "variant=simt"},
                                                          {"bf16", "variant=mma"},
                                                          {"f16", "variant=mma"},
                                                          {"bf16", "variant=wgmma,kernels=1"},
                                                          {"f16,deterministic=1", "variant=wgmma,kernels=1"},
                                                          {"bf16", "variant=wgmma,kernels=2"}}) {
      const bool wgmma = config.find("wgmma") != std::string::npos;
      if (++number % 2 == 0 && wgmma) continue;
      Fields fields = parse_fields(
          "heads=2,seq_q=80,seq_kv=80,head_dim=32,varlen=1,batch=7,total_q=" + std::to_string(q_starts[batch] + tail) +
              ",total_kv=" + std::to_string(kv_starts[batch] + tail) + ",dlse=1,dtype=" + dtype,
          "fields");
      for (const auto& [name, value] : parse_fields(more[0] == ',' ? more + 1 : more, "fields")) fields.set(name, value);
      if (wgmma && fields.contains("head_dim_v")) fields.set("head_dim_v", std::int64_t{32});
      const Problem problem = find_op("attention_backward").normalize({"attention_backward", fields});
      cases.push_back(test::case_of(problem, wgmma ? hopper : device_.info(), config));
    }
  }
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    const AttentionArraysOnHost clean = run(c, executable);
    for (const float poison : {static_cast<float>(NAN), static_cast<float>(INFINITY)})
      for (const std::int64_t parity : {0, 1, 2}) {
        if (parity == 2 && !std::isnan(poison)) continue;
        const AttentionArraysOnHost poisoned = run(c, executable, poison, parity);
        for (const char* name : {"dq", "dk", "dv"}) compare(c, name, clean, poisoned, parity);
        for (const char* name : {"dsinks", "dslopes"})
          for (std::int64_t h = 0; h < heads && parity == 2 && c.problem.fields.contains(name); ++h)
            EXPECT_EQ(clean.real(name, h), poisoned.real(name, h)) << c.text() << ": " << name << " " << h;
      }
  });
}

// A TMA box that lay wholly after a packed sequence faulted on an H200 for head_dim 192 and 256: the host executor rejects
// it.
TEST_F(AttentionBackwardPacked, NoTmaBoxLiesAfterASequence) {
  const DeviceInfo hopper = generic_device(parse_arch("sm_90a"));
  for (const char* dims : {"head_dim=192", "head_dim=256"}) {
    const Case c = test::case_of(
        "attention_backward",
        "heads=2,kv_heads=1,seq_q=140,seq_kv=140,varlen=1,batch=9,total_q=400,total_kv=400,dtype=bf16," + std::string(dims),
        hopper, "variant=wgmma,kernels=2,roles=gradients,dq_tile_q=128");
    test::expect_detected(c, {{"row + rows < last_row ? row + rows : last_row", "row + rows"}}, device_, compiler_);
  }
}

// The forward pass, too: rows after the last sequence reach no result, and theirs are not written.
TEST_F(AttentionBackwardPacked, ForwardPassIgnoresRowsAfterTheLastSequence) {
  const DeviceInfo hopper = generic_device(parse_arch("sm_90a"));
  std::vector<Case> cases;
  for (const auto& [dtype, config] : {std::pair{"f32", "variant=simt"},
                                      {"bf16", "variant=mma"},
                                      {"bf16", "variant=wgmma"},
                                      {"f16", "variant=split,splits=3"}})
    cases.push_back(test::case_of("attention",
                                  "heads=2,seq_q=80,seq_kv=80,head_dim=64,varlen=1,batch=7,causal=bottom-right,sinks=1,"
                                  "total_q=150,total_kv=170,dtype=" +
                                      std::string(dtype),
                                  hopper, config));
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    std::vector<AttentionArraysOnHost> results;
    for (const float poison : {1.0f, static_cast<float>(NAN)}) {
      AttentionArraysOnHost& arrays = results.emplace_back(c.problem, 3);
      std::memcpy(arrays["cu_seqlens_q"].data, q_starts, sizeof q_starts);
      std::memcpy(arrays["cu_seqlens_kv"].data, kv_starts, sizeof kv_starts);
      std::vector<void*> addresses;
      for (const HostArray& array : arrays.all()) {
        const std::int64_t elements = array.info.elements();
        if (array.info.output) std::memset(array.data, 0xFF, static_cast<std::size_t>(array.info.extent_bytes()));
        const std::int64_t total = array.info.name == "q" ? q_starts[batch] + tail : kv_starts[batch] + tail;
        if (array.info.name == "q" || array.info.name == "k" || array.info.name == "v")
          for (std::int64_t i = elements / total * (total - tail); i < elements; ++i)
            write_element(array.info.dtype, array.data, i, poison);
        addresses.push_back(array.data);
      }
      executable.enqueue(addresses, nullptr);
    }
    for (const char* name : {"o", "lse"}) {
      const HostArray &clean = results[0][name], &poisoned = results[1][name];
      const std::int64_t parts = name[0] == 'o' ? 1 : heads, elements = clean.info.elements();
      for (std::int64_t i = 0; i < elements; ++i) {
        const bool inside = i % (elements / parts) < elements / parts / (q_starts[batch] + tail) * q_starts[batch];
        ASSERT_EQ(inside, !std::isnan(results[0].real(name, i))) << c.text() << ": " << name << "[" << i << "]";
      }
      ASSERT_EQ(std::memcmp(clean.data, poisoned.data, static_cast<std::size_t>(clean.info.extent_bytes())), 0) << c.text();
    }
  });
}

}  // namespace
}  // namespace tunesmith
