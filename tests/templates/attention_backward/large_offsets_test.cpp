// Arrays of attention's backward pass whose elements lie more than 2^31 elements apart, on the host executor: memory that is
// never touched costs nothing.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/host_kernels.h"

namespace tunesmith {
namespace {

using test::Case;

/// Memory of an array, zeros until it is written.
class Sparse {
 public:
  explicit Sparse(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~Sparse() {
    if (data_ != MAP_FAILED) munmap(data_, bytes_);
  }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;

  std::byte* data() const { return data_ == MAP_FAILED ? nullptr : static_cast<std::byte*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

class AttentionBackwardLargeOffsets : public test::HostKernels {};

TEST_F(AttentionBackwardLargeOffsets, Beyond2To31Elements) {
  const std::string batches = "2147483712", positions = "100000000";  // 2 and 40 of them
  std::string of_batches = "batch=2,heads=2,seq_q=40,seq_kv=40,head_dim=16", of_positions = of_batches;
  for (const char* array : {"q", "k", "v", "o", "dout", "dq", "dk", "dv"}) {
    of_batches += std::string(",") + array + "_batch_stride=" + batches;
    of_positions += std::string(",") + array + "_seq_stride=" + positions + "," + array + "_batch_stride=64";
  }
  const DeviceInfo hopper = generic_device(parse_arch("sm_90a"));
  std::vector<Case> cases;
  for (const std::string& fields : {of_batches, of_positions})
    for (const auto& [dtype, variant] : {std::pair{"f32", "variant=simt"},
                                         {"bf16", "variant=mma"},
                                         {"bf16", "variant=wgmma,kernels=1"},
                                         {"bf16", "variant=wgmma,kernels=2"}})
      cases.push_back(test::case_of("attention_backward", fields + ",causal=bottom-right,dtype=" + dtype,
                                    std::string_view(variant).starts_with("variant=wgmma") ? hopper : device_.info(),
                                    variant));
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    const ParsedProblemPtr parsed = c.op().parse(c.problem);
    std::vector<std::unique_ptr<Sparse>> memory;
    std::vector<HostArray> arrays;
    std::vector<void*> addresses;
    for (const ArrayInfo& info : parsed->arrays()) {
      memory.push_back(std::make_unique<Sparse>(static_cast<std::size_t>(info.extent_bytes())));
      if (memory.back()->data() == nullptr) GTEST_SKIP() << "no " << info.extent_bytes() << " bytes of addresses";
      arrays.push_back({info, memory.back()->data()});
      addresses.push_back(memory.back()->data());
      if (info.name != "lse") {
        EXPECT_GT(info.extent_bytes() / size_of(info.dtype), std::int64_t{1} << 31) << info.name;
      }
    }
    parsed->fill_inputs(3, InputKind::random, arrays);
    executable.enqueue(addresses, nullptr);
    const CheckResult result = parsed->check(arrays, 1 << 20);
    EXPECT_TRUE(result.passed) << c.text() << ": " << result.first_failure;
    EXPECT_EQ(result.checked_rows, result.total_rows);
  });
}

}  // namespace
}  // namespace tunesmith
