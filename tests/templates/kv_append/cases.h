#pragma once
// Problems of kv_append for the kernel tests.

#include <string>
#include <vector>

namespace tunesmith::test {

/// Returns fields of problems: every dtype of q and of the caches, both rotations of all or some elements, normalization,
/// scales, layouts, head sizes from 8 to 512, strides, aligned or not, in place, pages of one position and of many.
inline std::vector<std::string> kv_append_problems(int tokens) {
  const std::string all = "tokens=" + std::to_string(tokens) + ",";
  const std::string rope = ",max_positions=300,rope=";
  return {all + "kv_heads=2,head_dim=64,dtype=bf16,page_size=16,pages=9",
          all + "kv_heads=1,head_dim=8,head_dim_v=24,dtype=f32,page_size=1,pages=150",
          all + "heads=4,kv_heads=2,head_dim=128,dtype=bf16,page_size=16,pages=9" + rope + "neox,qk_norm=1",
          all + "heads=8,kv_heads=1,head_dim=128,dtype=bf16,cache_dtype=e4m3,scales=tensor,page_size=64,pages=4" + rope +
              "neox,qk_norm=1,weight_dtype=f32,in_place=1",
          all + "heads=3,kv_heads=3,head_dim=72,dtype=f16,cache_dtype=e4m3,page_size=5,pages=40,layout=bhsd" + rope +
              "gpt-j,cos_sin_dtype=f16",
          all + "heads=2,kv_heads=2,head_dim=64,dtype=f32,cache_dtype=e4m3,scales=head,page_size=256,pages=2" + rope +
              "neox,rotary_dim=32",
          all + "heads=2,kv_heads=1,head_dim=256,dtype=bf16,page_size=16,pages=9,qk_norm=1,weight_offset=1,eps=1e-5" + rope +
              "gpt-j,rotary_dim=64,cos_sin_dtype=bf16",
          all + "heads=2,kv_heads=1,head_dim=512,head_dim_v=256,dtype=bf16,page_size=32,pages=5,qk_norm=1" + rope + "neox",
          all + "heads=2,kv_heads=1,head_dim=40,dtype=f16,page_size=16,pages=9,qk_norm=1,rope=none",
          // K and V in one array, queries and keys in one projection.
          all +
              "heads=4,kv_heads=2,head_dim=64,dtype=bf16,page_size=16,pages=9,k_page_stride=4096,v_page_stride=4096,"
              "k_stride=512,v_stride=512,q_stride=512" +
              rope + "neox",
          // Rows that are aligned to one element only, and an odd half of the rotated elements.
          all +
              "heads=2,kv_heads=2,head_dim=24,dtype=bf16,page_size=3,pages=60,k_stride=49,q_out_stride=51,"
              "k_slot_stride=51,k_page_stride=157,v_head_stride=25,v_slot_stride=53,v_page_stride=161" +
              rope + "neox,rotary_dim=10,qk_norm=1",
          all + "heads=2,kv_heads=2,head_dim=24,dtype=f32,page_size=3,pages=60" + rope + "gpt-j,rotary_dim=14"};
}

}  // namespace tunesmith::test
