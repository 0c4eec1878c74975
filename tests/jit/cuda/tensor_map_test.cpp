// Tensor maps of a launch plan with the scripted driver: the arguments of its calls, and the errors of invalid maps.

#include <gtest/gtest.h>

#include <thread>

#include "jit/executable.h"
#include "jit/host/device.h"
#include "tests/jit/cuda/device_fixture.h"

namespace tunesmith {
namespace {

constexpr std::size_t first_map = 64, second_map = 192, param_bytes = 320;

/// Returns a plan with maps for q (2, 3, 100, 64) in bf16 with a row stride of 80 elements, and for o, contiguous f32.
LaunchPlan plan_with_maps() {
  LaunchPlan plan;
  plan.params.resize(param_bytes);
  plan.pointers.push_back({"q", 0, 16, std::int64_t{2} * 3 * 100 * 80 * 2, false, false, -1});
  plan.pointers.push_back({"o", 8, 16, std::int64_t{2} * 3 * 100 * 64 * 4, true, false, -1});
  LaunchPlan::TensorMap& q = plan.tensor_maps.emplace_back();
  q.array = 0;
  q.offset = first_map;
  q.dtype = DType::bf16;
  q.rank = 4;
  q.sizes = {64, 100, 3, 2};
  q.strides_bytes = {160, 16000, 48000};
  q.box = {64, 128, 1, 1};
  q.swizzle_bytes = 128;
  q.promotion_bytes = 256;
  LaunchPlan::TensorMap& o = plan.tensor_maps.emplace_back();
  o.array = 1;
  o.offset = second_map;
  o.dtype = DType::f32;
  o.rank = 1;
  o.sizes = {38400};
  o.box = {8};
  o.swizzle_bytes = 32;
  o.promotion_bytes = 0;
  KernelLaunch& launch = plan.kernels.emplace_back();
  launch.entry = "scale";
  launch.block.x = 128;
  return plan;
}

class TensorMapTest : public CudaDeviceTest {
 protected:
  TensorMapTest() { fake_->param_bytes = param_bytes; }

  Executable executable(LaunchPlan plan) { return {device(), device().load(binary()), std::move(plan)}; }
  std::uint64_t word(std::size_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, fake_->last_params.data() + offset, sizeof value);
    return value;
  }
  /// Returns the error of the executable for the plan after a change.
  template <typename Change>
  std::string rejection(const Change& change, ErrorCode code = ErrorCode::unsupported) {
    LaunchPlan plan = plan_with_maps();
    change(plan, plan.tensor_maps[0]);
    const Error error = error_of([&] { executable(plan); });
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }

  void* const q_ = reinterpret_cast<void*>(0x700000000010);
  void* const o_ = reinterpret_cast<void*>(0x710000000000);
};

TEST_F(TensorMapTest, EveryLaunchEncodesTheMapsWithItsAddresses) {
  const Executable made = executable(plan_with_maps());
  EXPECT_EQ(fake_->count("cuTensorMapEncodeTiled"), 0) << "no address is known yet";
  made.enqueue(std::array<void*, 2>{q_, o_}, nullptr);
  EXPECT_EQ(fake_->count("cuTensorMapEncodeTiled type=9 at=0x700000000010 sizes=64,100,3,2, strides=160,16000,48000, "
                         "box=64/1,128/1,1/1,1/1, 0 3 3 0 context=0x1000"),
            1);
  EXPECT_EQ(
      fake_->count("cuTensorMapEncodeTiled type=7 at=0x710000000000 sizes=38400, strides= box=8/1, 0 1 0 0 context=0x1000"),
      1);
  EXPECT_EQ(word(0), 0x700000000010u);
  EXPECT_EQ(word(8), 0x710000000000u);
  EXPECT_EQ(word(first_map), 0x700000000010u);
  EXPECT_EQ(word(first_map + 120), 0x7e7e00000000000fu);
  EXPECT_EQ(word(second_map), 0x710000000000u);
  EXPECT_EQ(word(second_map + 120), 0x7e7e00000000000fu);
  EXPECT_LT(fake_->index_of("cuTensorMapEncodeTiled"), fake_->index_of("cuLaunchKernel"));

  made.enqueue(std::array<void*, 2>{o_, reinterpret_cast<void*>(0x720000000000)}, nullptr);
  EXPECT_EQ(word(first_map), 0x710000000000u);
  EXPECT_EQ(word(second_map), 0x720000000000u);
}

// A map of packed sequences begins before its array, and its sizes reach as far beyond it.
TEST_F(TensorMapTest, AMapMayBeginBeforeItsArray) {
  LaunchPlan plan = plan_with_maps();
  LaunchPlan::TensorMap& map = plan.tensor_maps[0];
  map.sizes = {64, 100, 3, 101};
  map.strides_bytes = {160, 16000, 160};
  map.before_bytes = 16000;
  plan.pointers[0].extent_bytes = 99 * 160 + 2 * 16000 + 128;  // 100 rows of 3 heads
  executable(plan).enqueue(std::array<void*, 2>{q_, o_}, nullptr);
  EXPECT_EQ(fake_->count("cuTensorMapEncodeTiled type=9 at=0x6fffffffc190 sizes=64,100,3,101, strides=160,16000,160, "
                         "box=64/1,128/1,1/1,1/1, 0 3 3 0 context=0x1000"),
            1);
  EXPECT_EQ(word(0), 0x700000000010u);
  --plan.pointers[0].extent_bytes;
  EXPECT_EQ(error_of([&] { executable(plan); }).code(), ErrorCode::invalid_argument);
}

TEST_F(TensorMapTest, MapOfANullArrayIsZero) {
  LaunchPlan plan = plan_with_maps();
  plan.pointers[1].optional = true;
  executable(plan).enqueue(std::array<void*, 2>{q_, nullptr}, nullptr);
  EXPECT_EQ(word(first_map), 0x700000000010u);
  for (std::size_t at = second_map; at < param_bytes; at += 8) EXPECT_EQ(word(at), 0u);
}

TEST_F(TensorMapTest, EncodesOnTheDeviceFromThreadsWithAnyContext) {
  fake_->device_count = 2;
  const Executable made = executable(plan_with_maps());
  std::thread([&] { made.enqueue(std::array<void*, 2>{q_, o_}, nullptr); }).join();
  EXPECT_EQ(word(first_map), 0x700000000010u);
  const CurrentContext other_device(push_, pop_, application_context(1));
  fake_->calls.clear();
  made.enqueue(std::array<void*, 2>{q_, o_}, nullptr);
  for (const std::string& call : fake_->calls) {
    if (call.starts_with("cuTensorMapEncodeTiled")) {
      EXPECT_TRUE(call.ends_with("context=0x1000")) << call;
    }
  }
}

TEST_F(TensorMapTest, ThreadsLaunchConcurrently) {
  const Executable made = executable(plan_with_maps());
  std::vector<std::thread> threads;
  for (std::uintptr_t i = 1; i <= 4; ++i)
    threads.emplace_back([&made, i] {
      for (int launch = 0; launch < 50; ++launch)
        made.enqueue(std::array<void*, 2>{reinterpret_cast<void*>(i << 32), reinterpret_cast<void*>(i << 40)}, nullptr);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake_->count("cuTensorMapEncodeTiled"), 400);
  for (std::uintptr_t i = 1; i <= 4; ++i)
    EXPECT_EQ(fake_->count("cuTensorMapEncodeTiled type=9 at=0x" + std::to_string(i) + "00000000"), 50);
}

TEST_F(TensorMapTest, LaunchRejectsAMisalignedAddress) {
  const Executable made = executable(plan_with_maps());
  const Error error = error_of([&] {
    made.enqueue(std::array<void*, 2>{reinterpret_cast<void*>(0x700000000008), o_}, nullptr);
  });
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  EXPECT_NE(std::string(error.what()).find("multiple of 16 bytes"), std::string::npos) << error.what();
  EXPECT_EQ(fake_->count("cuTensorMapEncodeTiled"), 0);
}

TEST_F(TensorMapTest, DriverErrorDescribesTheMap) {
  const Executable made = executable(plan_with_maps());
  fail("cuTensorMapEncodeTiled", cuda::error_invalid_value);
  const Error error = error_of([&] { made.enqueue(std::array<void*, 2>{q_, o_}, nullptr); });
  EXPECT_EQ(error.code(), ErrorCode::device_failed);
  EXPECT_STREQ(error.what(),
               "cuTensorMapEncodeTiled: CUDA_ERROR_SCRIPTED (as the script says) while encoding the tensor map of array 'q' "
               "with sizes 64x100x3x2, strides of 160 16000 48000 bytes, boxes of 64x128x1x1");
  EXPECT_EQ(fake_->count("cuLaunchKernel"), 0);
}

TEST_F(TensorMapTest, PrepareRejectsMapsThatTmaCannotLoad) {
  using Map = LaunchPlan::TensorMap;
  const auto rejected = [&](const auto& change) { return rejection([&](LaunchPlan&, Map& map) { change(map); }); };
  const std::string q = "the tensor map of array 'q' ";
  EXPECT_EQ(rejected([](Map& map) { map.sizes[1] = 0; }), q + "has size 0 in dimension 1; allowed: 1 to 2^32");
  EXPECT_EQ(rejected([](Map& map) { map.sizes[3] = (std::int64_t{1} << 32) + 1; }),
            q + "has size 4294967297 in dimension 3; allowed: 1 to 2^32");
  EXPECT_EQ(rejected([](Map& map) { map.strides_bytes[0] = 168; }),
            q + "has a stride of 168 bytes in dimension 1; allowed: multiples of 16 below 2^40");
  EXPECT_EQ(rejected([](Map& map) { map.strides_bytes[2] = std::int64_t{1} << 40; }),
            q + "has a stride of 1099511627776 bytes in dimension 3; allowed: multiples of 16 below 2^40");
  EXPECT_EQ(rejected([](Map& map) { map.strides_bytes[1] = -16; }),
            q + "has a stride of -16 bytes in dimension 2; allowed: multiples of 16 below 2^40");
  EXPECT_EQ(rejected([](Map& map) { map.box[1] = 257; }), q + "has a box of 257 elements in dimension 1; allowed: 1 to 256");
  EXPECT_EQ(rejected([](Map& map) { map.box[2] = 0; }), q + "has a box of 0 elements in dimension 2; allowed: 1 to 256");
  EXPECT_EQ(rejected([](Map& map) { map.box[0] = 12; }), q + "has a box with rows of 24 bytes; allowed: multiples of 16");
  EXPECT_EQ(rejected([](Map& map) { map.box[0] = 128; }),
            q + "has a box with rows of 256 bytes; allowed with a swizzle of 128: at most 128");
  EXPECT_EQ(rejected([](Map& map) { map.swizzle_bytes = 256; }),
            q + "has a swizzle of 256 bytes; allowed: 0, 32, 64 and 128");
  EXPECT_EQ(rejected([](Map& map) { map.promotion_bytes = 32; }),
            q + "has a promotion of 32 bytes; allowed: 0, 64, 128 and 256");
  EXPECT_EQ(rejected([](Map& map) { map.rank = 6; }), q + "has 6 dimensions; allowed: 1 to 5");
  EXPECT_EQ(rejected([](Map& map) { map.rank = 0; }), q + "has 0 dimensions; allowed: 1 to 5");
  EXPECT_EQ(rejected([](Map& map) { map.dtype = DType::i64; }), q + "has elements of i64; allowed: bf16, f16 and f32");
  EXPECT_EQ(rejection([](LaunchPlan& plan, Map&) { plan.pointers[0].alignment = 8; }),
            q + "needs addresses that are a multiple of 16 bytes; this plan promises 8");
}

TEST_F(TensorMapTest, PrepareRejectsAnInconsistentPlan) {
  using Map = LaunchPlan::TensorMap;
  const auto rejected = [&](const auto& change) { return rejection(change, ErrorCode::invalid_argument); };
  const std::string q = "the tensor map of array 'q' ";
  EXPECT_EQ(rejected([](LaunchPlan&, Map& map) { map.array = 2; }),
            "the tensor map of array '2' belongs to no array; the plan has 2");
  EXPECT_EQ(rejected([](LaunchPlan&, Map& map) { map.offset = 80; }),
            q + "is at byte 80 of a parameter block of 320 bytes; it takes 128 bytes at a multiple of 64");
  EXPECT_EQ(rejected([](LaunchPlan&, Map& map) { map.offset = 256; }),
            q + "is at byte 256 of a parameter block of 320 bytes; it takes 128 bytes at a multiple of 64");
  EXPECT_EQ(rejected([](LaunchPlan& plan, Map&) { plan.pointers[0].extent_bytes = 95967; }),
            q + "spans 95968 bytes; the array has 95967");
}

TEST_F(TensorMapTest, DevicesWithoutTmaRejectThePlan) {
  fake_->major = 8;
  EXPECT_EQ(
      rejection([](LaunchPlan&, LaunchPlan::TensorMap&) {}),
      "array 'q' is loaded through a tensor map, which NVIDIA Fake does not support; configurations with tensor maps and "
      "wgmma run on sm_90a GPUs and on the host executor");
}

TEST(TensorMapHost, BoxesNarrowerThanTheirSwizzleAreRejected) {
  HostDevice host;
  LaunchPlan::TensorMap map;
  map.rank = 2;
  map.sizes = {64, 8};
  map.strides_bytes = {128};
  map.box = {64, 8};
  map.swizzle_bytes = 128;
  EXPECT_NE(host.prepare_tensor_map(map, "q"), nullptr);
  map.box = {32, 8};
  const Error error = error_of([&] { static_cast<void>(host.prepare_tensor_map(map, "q")); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_STREQ(error.what(),
               "array 'q' has a tensor map with a box of 64 bytes in dimension 0 and a swizzle over 128; the host executor "
               "needs them equal");
}

}  // namespace
}  // namespace tunesmith
