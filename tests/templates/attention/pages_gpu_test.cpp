// Keys in pages and lengths in device memory on a GPU: numerics of every variant, and a CUDA graph that is replayed with
// other lengths and tables.

#include <gtest/gtest.h>

#include <functional>

#include "core/half.h"
#include "jit/cuda/device.h"
#include "tests/support/gpu_kernels.h"
#include "tests/support/graph_calls.h"
#include "tests/templates/attention/mods.h"
#include "tunesmith/buffer.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using test::Case;

class AttentionPagedGpu : public test::GpuKernels {};

TEST_F(AttentionPagedGpu, EveryVariantAndPageSize) {
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const int page_size : {1, 3, 8, 16, 64, 100, 256})
    for (const char* dims : {"head_dim=128,heads=8,kv_heads=2", "head_dim=64,heads=6,kv_heads=3", "head_dim=72,heads=4",
                             "head_dim=256,heads=2,kv_heads=1"})
      for (const char* queries :
           {"seq_q=1", "seq_q=3,causal=bottom-right,sinks=1", "seq_q=16,varlen=1,total_q=100,causal=bottom-right,alibi=1",
            "seq_q=500,causal=bottom-right", "seq_q=400,varlen=1,total_q=2500,causal=bottom-right,window_left=300"})
        for (const char* config : {"variant=split", "variant=split,splits=3", "variant=split,cluster=2",
                                   "variant=split,cluster=8", "variant=mma", "variant=simt", "variant=wgmma",
                                   "variant=wgmma,tile_q=128,tile_kv=64", "variant=wgmma,tile_q=64,tile_kv=48,q_stages=1"}) {
          const int max_pages = 1500 / page_size + 1;
          const std::string fields = std::string("batch=14,") + dims + "," + queries +
                                     (turn % 2 == 0 ? ",dtype=bf16" : ",dtype=f16") + (turn % 3 == 0 ? ",layout=bhsd" : "") +
                                     ",page_size=" + std::to_string(page_size) + ",max_pages=" + std::to_string(max_pages) +
                                     ",pages=" + std::to_string(max_pages * 7);
          ++turn;
          if (turn % 4 != 0) continue;  // every combination of two, not of all
          for (const Case& c : case_if_valid("attention", fields, config)) cases.push_back(c);
        }
  EXPECT_GT(cases.size(), 80U);
  verify_all(cases);
}

TEST_F(AttentionPagedGpu, GraphIsReplayedWithOtherLengthsAndTables) {
  constexpr std::int64_t batch = 24, max_pages = 128, page = 16, pages = 1500;
  const std::string fields =
      "batch=24,heads=32,kv_heads=8,seq_q=1,head_dim=128,dtype=bf16,page_size=16,max_pages=128,pages=1500";
  const GraphCalls calls(dynamic_cast<const CudaDevice&>(device()).driver());
  for (const char* config : {"variant=split,splits=5", "variant=split,cluster=4,warps=8", "variant=mma", "variant=wgmma"}) {
    const Case c = case_of("attention", fields, config);
    const auto executable = executable_of(c);
    const test::AttentionArraysOnHost host(c.problem, 7);
    std::vector<DeviceBuffer> buffers;
    std::vector<void*> addresses;
    const auto bytes_of = [](const HostArray& array) { return static_cast<std::size_t>(array.info.extent_bytes()); };
    for (const HostArray& array : host.all()) {
      buffers.emplace_back(*engine_, bytes_of(array)).copy_from_host(array.data, bytes_of(array));
      addresses.push_back(buffers.back().data());
    }
    const std::function<void(Stream)> work = [&](Stream stream) {
      executable->enqueue(addresses, stream);  // loads and allocates, which a capture forbids
      device().synchronize(stream);
      ASSERT_EQ(calls.begin_capture(stream, 0), 0);  // CU_STREAM_CAPTURE_MODE_GLOBAL
      executable->enqueue(addresses, stream);
      GraphCalls::Handle graph = nullptr, exec = nullptr;
      ASSERT_EQ(calls.end_capture(stream, &graph), 0);
      ASSERT_EQ(calls.instantiate(&exec, graph, 0), 0);
      std::uint64_t random = 11;
      const auto draw = [&random](std::int64_t below) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        return static_cast<std::int64_t>((random >> 33) % static_cast<std::uint64_t>(below));
      };
      for (int step = 0; step < 8; ++step) {
        for (std::int64_t b = 0; b < batch; ++b) {
          const std::int64_t length = step == 2 || draw(5) == 0 ? 0
                                      : step == 4               ? max_pages * page
                                                                : draw(max_pages * page + 1);
          write_integer(DType::i32, host["kv_lengths"].data, b, length);
          for (std::int64_t i = 0; i < max_pages; ++i)
            write_integer(DType::i32, host["block_table"].data, b * max_pages + i,
                          i * page < length ? draw(pages) : -1 - draw(9));
        }
        for (std::size_t i = 0; i < buffers.size(); ++i) {
          const HostArray& array = host.all()[i];
          if (array.info.output)
            device().fill(buffers[i].data(), 0xff, bytes_of(array));
          else if (array.info.dtype == DType::i32)
            buffers[i].copy_from_host(array.data, bytes_of(array));
        }
        ASSERT_EQ(calls.launch(exec, stream), 0);
        device().synchronize(stream);
        for (std::size_t i = 0; i < buffers.size(); ++i)
          if (const HostArray& array = host.all()[i]; array.info.output)
            buffers[i].copy_to_host(array.data, bytes_of(array));
        const CheckResult check = c.op().parse(c.problem)->check(host.all(), 200);
        EXPECT_TRUE(check.passed) << c.text() << ", step " << step << ": " << check.first_failure;
      }
      calls.exec_destroy(exec);
      calls.destroy(graph);
    };
    device().time_us({&work, 1}, false);
  }
}

}  // namespace
}  // namespace tunesmith
