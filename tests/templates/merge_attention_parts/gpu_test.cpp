// merge_attention_parts on a GPU.

#include <gtest/gtest.h>

#include "tests/support/gpu_kernels.h"
#include "tests/templates/merge_attention_parts/cases.h"

namespace tunesmith {
namespace {

using test::Case;

class MergePartsGpu : public test::GpuKernels {};

TEST_F(MergePartsGpu, EveryProblem) {
  std::vector<Case> cases;
  for (const std::string& fields : test::merge_parts_problems())
    for (const char* config : {"threads=64,together=1", "threads=128", "threads=256,together=8"})
      cases.push_back(case_of("merge_attention_parts", fields, config));
  cases.push_back(
      case_of("merge_attention_parts", "parts=16,batch=64,heads=32,seq_q=1,head_dim=128,dtype=f32,out_dtype=bf16", ""));
  verify_all(cases);
}

}  // namespace
}  // namespace tunesmith
