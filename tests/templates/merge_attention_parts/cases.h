#pragma once
// Problems of merge_attention_parts for the kernel tests.

#include <string>
#include <vector>

namespace tunesmith::test {

/// Returns fields of problems: every dtype, both layouts and bases, head sizes from 8 to 512, gaps between parts that leave
/// rows aligned or not, one part and many.
inline std::vector<std::string> merge_parts_problems() {
  return {
      "parts=2,batch=3,heads=4,seq_q=5,head_dim=64,dtype=bf16",
      "parts=1,heads=2,seq_q=3,head_dim=128,dtype=f16",
      "parts=5,batch=2,heads=3,seq_q=7,head_dim=128,dtype=f32,out_dtype=bf16,lse_base=two",
      "parts=33,batch=2,heads=8,seq_q=1,head_dim=256,dtype=bf16,out_dtype=f32,layout=bhsd",
      "parts=4,seq_q=45,head_dim=8,dtype=f32",
      "parts=7,batch=2,heads=2,seq_q=9,head_dim=72,dtype=f16,layout=bhsd,lse_base=two,o_part_stride=2600,lse_part_stride=40",
      "parts=3,batch=2,heads=5,seq_q=4,head_dim=40,dtype=bf16,o_part_stride=1603",
      "parts=6,heads=3,seq_q=6,head_dim=512,dtype=bf16"};
}

}  // namespace tunesmith::test
