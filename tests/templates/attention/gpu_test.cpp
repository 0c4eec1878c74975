// Numerics of attention on a GPU, for every variant and many configurations; reproducibility; 64-bit offsets.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/half.h"
#include "templates/attention/reference/reference.h"
#include "tests/support/gpu_kernels.h"
#include "tests/templates/attention/cases.h"
#include "tests/templates/attention/mods.h"
#include "tuner/verify.h"
#include "tunesmith/buffer.h"
#include "tunesmith/tunesmith.h"

namespace tunesmith {
namespace {

using test::Case;

class AttentionGpu : public test::GpuKernels {};

TEST_F(AttentionGpu, EveryProblemInEveryVariant) {
  verify_all(test::attention_cases(test::attention_problems(false), device().info(), 3, 7));
}

TEST_F(AttentionGpu, TensorCoresOnEveryProblem) {
  verify_all(test::attention_cases(test::attention_problems(true), device().info(), 3, 107));
}

// Split-KV partials that a second kernel or clusters of every size combine.
TEST_F(AttentionGpu, SplitKeysOnEveryProblemOfFewQueries) {
  std::vector<Case> cases;
  std::vector<Problem> problems = test::attention_problems(true);
  for (const char* fields :
       {"seq_q=1,seq_kv=3000,head_dim=128,heads=32,kv_heads=8,batch=3", "seq_q=5,seq_kv=1999,head_dim=64,heads=6,kv_heads=2",
        "seq_q=30,seq_kv=19,head_dim=64,heads=2,kv_heads=1,causal=bottom-right",
        "seq_q=4,seq_kv=900,head_dim=128,heads=8,kv_heads=2,batch=7,varlen=1,total_q=15,total_kv=2500,sinks=1,dtype=f16"})
    problems.push_back(test::normalized("attention", fields));
  for (const Problem& problem : problems)
    for (const char* config : {"splits=0", "splits=3", "cluster=2", "cluster=4", "cluster=8", "cluster=16"}) {
      try {
        cases.push_back(case_of(problem, std::string("variant=split,") + config));
      } catch (const Error&) {
        continue;  // too many rows, or the device has no clusters
      }
    }
  EXPECT_GT(cases.size(), 100U);
  verify_all(cases);
}

// Verifies the search spaces of common shapes like the tuner.
TEST_F(AttentionGpu, SearchSpacesOfCommonShapes) {
  std::vector<Case> cases;
  for (const char* fields :
       {"seq_q=4096,head_dim=64,heads=32,batch=4", "seq_q=4096,head_dim=128,heads=16,batch=4,causal=bottom-right",
        "seq_q=4096,head_dim=256,heads=8,batch=4", "seq_q=1,seq_kv=8192,head_dim=128,heads=32,kv_heads=8",
        "seq_q=4096,head_dim=64,heads=32,batch=4,dropout=0.1,dropout_seed=7",
        "seq_q=4096,head_dim=128,heads=16,batch=4,varlen=1,total_q=9000,total_kv=9000,dropout=0.3,causal=bottom-right"}) {
    const Problem problem = test::normalized("attention", fields);
    const Problem small = find_op("attention").parse(problem)->verification_problem();
    for (const Config& config : find_op("attention").parse(problem)->search_space(device().info(), Effort::quick))
      cases.push_back({small, config});
  }
  verify_all(cases);
}

// With random keys and with equal ones, whose weights are all rounded alike.
TEST_F(AttentionGpu, LseIsExactInEveryVariant) {
  std::vector<Case> cases;
  for (const char* dtype : {",dtype=bf16", ",dtype=f16", ",dtype=f32"})
    for (const char* fields :
         {"seq_q=64,seq_kv=128,head_dim=64,heads=8,kv_heads=2",
          "seq_q=200,seq_kv=1100,head_dim=64,heads=3,causal=bottom-right",
          "seq_q=130,seq_kv=515,head_dim=128,head_dim_v=64,heads=2,alibi=1,sinks=1",
          "seq_q=70,seq_kv=900,head_dim=64,heads=2,softcap=30",
          "seq_q=130,seq_kv=300,head_dim=128,heads=2,softcap=5,causal=top-left",
          "seq_q=80,seq_kv=400,head_dim=64,heads=2,batch=3,varlen=1,total_q=150,total_kv=700,window_left=100",
          "seq_q=140,seq_kv=520,head_dim=256,heads=2,causal=bottom-right",
          "seq_q=3,seq_kv=2000,head_dim=64,heads=8,kv_heads=2", "seq_q=1,seq_kv=3000,head_dim=128,heads=8,kv_heads=2"}) {
      const std::string text = std::string(fields) + dtype;
      for (const char* config : {"variant=wgmma", "variant=wgmma,tile_q=128", "variant=mma", "variant=simt",
                                 "variant=split,splits=3", "variant=split,cluster=4"})
        for (const Case& c : case_if_valid("attention", text, config)) cases.push_back(c);
    }
  ASSERT_GT(cases.size(), 60U);
  compile_all(cases);
  std::map<std::string, double> worst;
  for (const Case& c : cases) {
    const attention::Settings settings = attention::Settings::of(read_problem(AttentionProblem{}, c.problem.fields));
    for (const bool equal_keys : {false, true}) {
      const test::AttentionArraysOnHost host(c.problem, 17);
      const HostArray& k = host["k"];
      for (std::int64_t i = 0; equal_keys && i < k.info.elements(); ++i)
        write_element(settings.dtype, k.data, i, i % settings.head_dim % 2 == 0 ? 0.625f : -0.3125f);
      std::vector<DeviceBuffer> buffers;
      std::vector<void*> addresses;
      for (const HostArray& array : host.all()) {
        const auto bytes = static_cast<std::size_t>(array.info.extent_bytes());
        buffers.emplace_back(*engine_, bytes).copy_from_host(array.data, bytes);
        addresses.push_back(buffers.back().data());
      }
      executable_of(c)->enqueue(addresses, nullptr);
      engine_->synchronize();
      const HostArray& lse = host["lse"];
      buffers.back().copy_to_host(lse.data, static_cast<std::size_t>(lse.info.extent_bytes()));
      const attention::Reference reference(settings, host.all());
      for (std::int64_t row = 0; row < settings.batch * settings.heads * settings.seq_q; ++row) {
        attention::Reference::Query query;
        query.batch = row / settings.seq_q / settings.heads;
        query.head = row / settings.seq_q % settings.heads;
        query.query = row % settings.seq_q;
        query.bounds = reference.sequence(query.batch);
        if (query.query >= query.bounds.queries) continue;
        reference.compute_scores(query);
        attention::Reference::Row exact;
        reference.compute(query, exact);
        const double found =
            read_element(DType::f32, lse.data,
                         settings.varlen ? query.head * settings.total_q + query.bounds.q_start + query.query : row);
        if (exact.lse == found) continue;  // both may be -inf
        const double error = std::fabs(found - exact.lse), allowed = 1e-5 * std::fabs(exact.lse) + 1e-6;
        double& largest = worst[c.config.variant() + " " + c.problem.fields.string("dtype")];
        largest = std::max(largest, error / allowed);
        ASSERT_LE(error, allowed) << c.text() << (equal_keys ? ", equal keys" : "") << ", row " << row << ": lse " << found
                                  << ", exact " << exact.lse;
      }
    }
  }
  for (const auto& [what, share] : worst) std::printf("%s: lse within %.2f of the bound\n", what.c_str(), share);
}

// The elements after the end of a sequence belong to the next one and must not affect the result.
TEST_F(AttentionGpu, PackedSequencesAreIndependent) {
  constexpr std::int32_t starts[] = {0, 70, 71, 71, 333, 700};
  constexpr std::int64_t batch = std::size(starts) - 1, total = starts[batch], heads = 2;
  for (const std::int64_t head_dim : {64, 128, 256})
    for (const char* variant : {"wgmma", "mma"}) {
      AttentionProblem problem{.batch = batch, .heads = heads, .seq_q = 400, .head_dim = head_dim};
      problem.varlen = true;
      problem.total_q = problem.total_kv = total;
      PrepareOptions options;
      options.config.fields = parse_fields(std::string("variant=") + variant, "config");
      if (device().info().arch.number() != 90 && std::string_view(variant) == "wgmma") continue;
      const Plan plan = engine_->prepare(problem, options);
      const auto run = [&](bool poisoned) {
        const auto count = static_cast<std::size_t>(total * heads * head_dim);
        std::vector<std::uint16_t> q(count), kv(count), o(count, 0x7fc0);
        for (std::size_t i = 0; i < count; ++i) {
          q[i] = static_cast<std::uint16_t>(0x3f00 + i * 7919 % 200 - (i % 3 == 0 ? 0x8000 : 0));
          kv[i] = static_cast<std::uint16_t>(0x3f00 + i * 104729 % 160 + (i % 2 == 0 ? 0x8000 : 0));
        }
        // The keys and values of every second sequence.
        if (poisoned)
          for (std::int64_t b = 1; b < batch; b += 2)
            std::fill(kv.begin() + starts[b] * heads * head_dim, kv.begin() + starts[b + 1] * heads * head_dim,
                      std::uint16_t{0x7fc0});
        const std::size_t bytes = count * sizeof(std::uint16_t);
        DeviceBuffer device_q(*engine_, bytes), device_kv(*engine_, bytes), device_o(*engine_, bytes);
        DeviceBuffer device_starts(*engine_, sizeof starts);
        device_q.copy_from_host(q.data(), bytes);
        device_kv.copy_from_host(kv.data(), bytes);
        device_o.copy_from_host(o.data(), bytes);
        device_starts.copy_from_host(starts, sizeof starts);
        void* const arrays[] = {device_q.data(),      device_kv.data(), device_kv.data(), device_starts.data(),
                                device_starts.data(), device_o.data(),  nullptr};
        plan.launch(arrays);
        engine_->synchronize();
        device_o.copy_to_host(o.data(), bytes);
        return o;
      };
      const std::vector<std::uint16_t> clean = run(false), poisoned = run(true);
      for (std::int64_t b = 0; b < batch; b += 2)
        for (std::int64_t i = starts[b] * heads * head_dim; i < starts[b + 1] * heads * head_dim; ++i)
          ASSERT_EQ(clean[static_cast<std::size_t>(i)], poisoned[static_cast<std::size_t>(i)])
              << variant << ", head_dim " << head_dim << ", sequence " << b;
      // Check that the poison was present.
      const std::uint16_t felt = poisoned[static_cast<std::size_t>(starts[1] * heads * head_dim)];
      EXPECT_GT(felt & 0x7fff, 0x7f80) << variant << ", head_dim " << head_dim;
    }
}

}  // namespace
}  // namespace tunesmith
