// Cross-entropy on a GPU: longer rows than in tests/templates/rows, the pipeline, 64-bit offsets.

#include <gtest/gtest.h>

#include <cmath>

#include "core/half.h"
#include "tests/support/gpu_kernels.h"
#include "tests/templates/softmax/launches.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::Case;

class CrossEntropyGpu : public test::GpuKernels {};

TEST_F(CrossEntropyGpu, LongRowsOfF64) {
  std::vector<Case> cases;
  for (const auto& [fields, config] :
       {std::pair{"rows=25,cols=12001,dtype=f64,gradient=in_place", "variant=hybrid"},
        {"rows=25,cols=32000,dtype=f64,gradient=separate", "variant=cluster,blocks_per_row=4"},
        {"rows=25,cols=50257,dtype=f64,gradient=in_place,nll=1", "variant=grid"},
        {"rows=25,cols=128256,dtype=f64,reduction=none,nll=1", "variant=split"},
        {"rows=25,cols=128257,dtype=f64,label_smoothing=0.1,weight=1", "variant=two_pass"}})
    for (Case& c : case_if_valid("cross_entropy", fields, config)) cases.push_back(std::move(c));
  const test::LargestErrors errors = verify_all(cases);
  for (const char* op : {"cross_entropy", "cross_entropy_backward"}) EXPECT_LE(errors.float64(op), 0x1.0p-48) << op;
}

TEST_F(CrossEntropyGpu, VocabulariesOfLanguageModels) {
  std::vector<Case> cases;
  std::uint64_t seed = 90;
  for (const char* fields :
       {"rows=25,cols=32000,reduction=none,nll=1", "rows=25,cols=128256,dtype=bf16,gradient=in_place,reduction=none",
        "rows=25,cols=50257,dtype=bf16,gradient=separate,out_dtype=f32",
        "rows=25,cols=151937,gradient=in_place,z_loss=0.001",
        "rows=24,cols=262144,dtype=f16,gradient=in_place,reduction=none,argmax=1", "rows=1,cols=262144,reduction=none"}) {
    const Problem problem = test::normalized("cross_entropy", fields);
    for (const Config& config : test::sample_space(problem, device().info(), 6, seed++)) cases.push_back({problem, config});
  }
  verify_all(cases);
}

// All geometries of the pipeline variant with edge-case rows: more rows than a cluster has in flight, not divisible by the
// number of clusters.
TEST_F(CrossEntropyGpu, PipelineIsCorrectInEveryGeometry) {
  std::vector<Case> cases;
  for (const char* fields :
       {"cols=128256,dtype=bf16,gradient=in_place,reduction=none", "cols=128256,gradient=in_place,reduction=none,nll=1",
        "cols=262144,gradient=in_place,dloss=scalar", "cols=151936,dtype=f16,gradient=separate,z_loss=0.001,weight=1",
        "cols=128256,dtype=bf16,out_dtype=f32,gradient=separate,reduction=none,dloss=row,softcap=30,scale=2"}) {
    const Problem many = test::normalized("cross_entropy", std::string("rows=8192,") + fields);
    const Problem few = test::normalized("cross_entropy", std::string("rows=61,") + fields);
    std::size_t count = 0;
    for (const Config& config : find_op("cross_entropy").parse(many)->search_space(device().info(), Effort::full))
      if (config.variant() == "pipeline" && config.text().find("store=plain") != std::string::npos && count++ < 12)
        cases.push_back({few, config});
  }
  verify_all(cases);
}

// Zero rows, fewer rows than clusters, and numbers around the rows that clusters request ahead; clusters without rows.
TEST_F(CrossEntropyGpu, PipelineWithAnyNumberOfRows) {
  std::vector<Case> cases;
  for (const char* config :
       {"blocks_per_row=1,stages=12,ahead=0,threads=128", "blocks_per_row=2,stages=12,ahead=1,threads=128",
        "blocks_per_row=4,stages=6,ahead=1,threads=256", "blocks_per_row=8,stages=3,ahead=0,threads=64",
        "blocks_per_row=16,stages=5,ahead=1,threads=128", "blocks_per_row=4,stages=4,ahead=0,threads=512",
        "blocks_per_row=2,stages=12,ahead=0,threads=256,min_blocks=2"})
    for (const int rows : {0, 1, 2, 3, 8, 16, 31, 66, 67, 132, 133, 165, 264, 265, 397, 660, 1000})
      for (Case& c :
           case_if_valid("cross_entropy", "rows=" + std::to_string(rows) + ",cols=16384,dtype=bf16,gradient=in_place",
                         std::string("variant=pipeline,chunk_bytes=4096,load=evict_last,") + config))
        cases.push_back(std::move(c));
  EXPECT_GE(cases.size(), tunesmith::name(device().info().arch) == "sm_90a" ? 100U : 0U);
  verify_all(cases);
}

// The target in many columns, including those at the boundaries of blocks, chunks, warps and vectors.
TEST_F(CrossEntropyGpu, PipelineFindsTheTargetInEveryColumn) {
  std::vector<Case> cases;
  for (const auto& [fields, config] :
       {std::pair{"rows=6008,cols=6008,dtype=bf16", "threads=64,blocks_per_row=2,stages=5,ahead=1"},
        {"rows=4100,cols=4100", "threads=128,blocks_per_row=4,stages=4,ahead=0"},
        {"rows=4104,cols=4104,dtype=f16,out_dtype=f32", "threads=32,blocks_per_row=1,stages=9,ahead=1"}})
    for (Case& c : case_if_valid("cross_entropy", std::string(fields) + ",gradient=separate,reduction=none",
                                 std::string("variant=pipeline,chunk_bytes=4096,") + config))
      cases.push_back(std::move(c));
  compile_all(cases);
  for (const Case& c : cases) {
    const std::vector<ArrayInfo> infos = c.op().parse(c.problem)->arrays();
    std::vector<std::vector<std::byte>> images;
    std::vector<DeviceMemory> memories;
    std::vector<HostArray> host;
    std::vector<void*> addresses;
    for (const ArrayInfo& info : infos) images.emplace_back(static_cast<std::size_t>(info.extent_bytes()), std::byte{0xFF});
    for (std::size_t i = 0; i < infos.size(); ++i) host.push_back({infos[i], images[i].data()});
    c.op().parse(c.problem)->fill_inputs(3, InputKind::random, host);
    for (std::int64_t row = 0; row < infos[1].shape[0]; ++row) write_integer(infos[1].dtype, images[1].data(), row, row);
    for (std::size_t i = 0; i < infos.size(); ++i) {
      memories.emplace_back(device(), images[i].size());
      device().copy_to_device(memories[i].get(), images[i].data(), images[i].size());
      addresses.push_back(memories[i].get());
    }
    executable_of(c)->enqueue(addresses, nullptr);
    device().synchronize(nullptr);
    for (std::size_t i = 0; i < infos.size(); ++i)
      device().copy_to_host(images[i].data(), memories[i].get(), images[i].size());
    const CheckResult result = c.op().parse(c.problem)->check(host, infos[1].shape[0]);
    EXPECT_TRUE(result.passed) << c.text() << ": " << result.first_failure;
  }
}

TEST_F(CrossEntropyGpu, PipelineIsReproducible) {
  std::vector<Case> cases;
  for (const auto& [fields, config] :
       {std::pair{"rows=300,cols=128256,dtype=bf16,gradient=in_place", "variant=pipeline"},
        {"rows=270,cols=60000,gradient=in_place", "variant=pipeline"},
        {"rows=500,cols=32000,gradient=in_place",
         "variant=pipeline,blocks_per_row=2,threads=256,stages=13,chunk_bytes=16384,ahead=1,load=evict_last"},
        {"rows=1500,cols=8192,dtype=bf16,gradient=in_place",
         "variant=pipeline,blocks_per_row=2,threads=64,stages=11,chunk_bytes=4096,ahead=0,min_blocks=2"}})
    for (Case& c : case_if_valid("cross_entropy", fields, config)) cases.push_back(std::move(c));
  compile_all(cases);
  for (const Case& c : cases)
    EXPECT_EQ(test::difference_between_launches(c.op(), c.problem, *executable_of(c), device(), 20), "") << c.text();
}

// More rows than one block reduces.
TEST_F(CrossEntropyGpu, ReducesManyRows) {
  std::vector<Case> cases;
  for (const char* fields :
       {"rows=40001,cols=64,num_correct=1,check_targets=1", "rows=20003,cols=64,weight=1,gradient=in_place"})
    cases.push_back(case_of("cross_entropy", fields, ""));
  verify_all(cases);
}

// More rows than start together, so that blocks bring rows of later ones into L2. In place, rows before them change
// meanwhile.
TEST_F(CrossEntropyGpu, PrefetchedRows) {
  std::vector<Case> cases;
  for (const auto& [fields, config] :
       {std::pair{"rows=30000,cols=203,gradient=in_place", "variant=warp,threads=128,lanes=8,prefetch_blocks=5"},
        {"rows=30000,cols=55,dtype=bf16,gradient=in_place",
         "variant=warp,threads=64,lanes=1,access=staged,rounds=1,prefetch_blocks=4"},
        {"rows=9001,cols=1000,dtype=bf16,gradient=in_place", "variant=block,threads=64,prefetch_blocks=6"},
        {"rows=9001,cols=1000", "variant=block,threads=64,load=streaming,prefetch_blocks=6"},
        {"rows=801,cols=16391,gradient=in_place", "variant=cluster,threads=128,blocks_per_row=4,prefetch_blocks=1"}})
    for (Case& c : case_if_valid("cross_entropy", fields, config)) cases.push_back(std::move(c));
  EXPECT_GE(cases.size(), has_clusters() ? 5U : 0U);
  verify_all(cases);
}

// More than 2^31 logits: 32-bit offsets would fail in the last rows. All logits are 0 except one in the first and one in the
// last row.
TEST_F(CrossEntropyGpu, OffsetsAreSixtyFourBits) {
  constexpr std::int64_t rows = 70000, cols = 40000;  // 2.8e9 elements
  if (device().info().memory_bytes < std::int64_t{14} << 30) GTEST_SKIP() << "needs 12 GB of device memory";
  const std::int64_t bytes = rows * cols * 2;
  DeviceMemory logits(device(), bytes), dlogits(device(), bytes);
  DeviceMemory targets(device(), rows * 8), loss(device(), rows * 4), lse(device(), rows * 4);
  device().fill(logits.get(), 0, bytes);
  device().fill(targets.get(), 0, rows * 8);
  std::byte one[2];
  write_element(DType::bf16, one, 0, 1.0F);
  const std::int64_t at[] = {5, (rows - 1) * cols + cols - 1};
  for (const std::int64_t element : at) device().copy_to_device(logits.get() + element * 2, one, 2);
  std::byte last_class[8];
  write_integer(DType::i64, last_class, 0, cols - 1);
  device().copy_to_device(targets.get() + (rows - 1) * 8, last_class, 8);

  const double sum = static_cast<double>(cols - 1) + std::exp(1.0);
  std::vector<Case> cases;
  for (const char* variant : {"block", "hybrid", "cluster", "grid", "two_pass", "split,blocks_per_row=5", "pipeline"})
    for (Case& c : case_if_valid("cross_entropy", "rows=70000,cols=40000,dtype=bf16,reduction=none,gradient=separate",
                                 std::string("variant=") + variant))
      cases.push_back(std::move(c));
  EXPECT_GE(cases.size(), 4U);
  compile_all(cases);
  for (const Case& c : cases) {
    device().fill(dlogits.get(), 0xff, bytes);
    device().fill(loss.get(), 0xff, rows * 4);
    void* const arrays[] = {logits.get(), targets.get(), loss.get(), lse.get(), dlogits.get()};
    executable_of(c)->enqueue(arrays, nullptr);
    device().synchronize(nullptr);
    const auto value_of = [&](const DeviceMemory& memory, DType dtype, std::int64_t index) {
      std::byte element[4];
      device().copy_to_host(element, memory.get() + index * size_of(dtype), static_cast<std::size_t>(size_of(dtype)));
      return read_element(dtype, element, 0);
    };
    EXPECT_NEAR(value_of(loss, DType::f32, 0), std::log(sum), 1e-3) << c.text();
    EXPECT_NEAR(value_of(loss, DType::f32, rows / 2), std::log(static_cast<double>(cols)), 1e-3) << c.text();
    EXPECT_NEAR(value_of(loss, DType::f32, rows - 1), std::log(sum) - 1, 1e-3) << c.text();
    EXPECT_NEAR(value_of(dlogits, DType::bf16, 5), std::exp(1.0) / sum, 1e-6) << c.text();
    EXPECT_NEAR(value_of(dlogits, DType::bf16, at[1]), std::exp(1.0) / sum - 1, 4e-3) << c.text();
    EXPECT_NEAR(value_of(dlogits, DType::bf16, at[1] - 1), 1 / sum, 1e-6) << c.text();
  }
}

}  // namespace
}  // namespace tunesmith
