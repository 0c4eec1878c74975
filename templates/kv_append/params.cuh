// Parameters of the kernel. The host includes this file, too, and fills them.
#pragma once

#include "device/integers.cuh"

namespace tunesmith {

/// Elements between neighbouring pages, slots of a page, and heads of a cache.
struct KvCacheStrides {
  int64 page, slot, head;
};

/// The kernel's only argument.
struct KvAppendParams {
  const void *k, *v, *q;            ///< (tokens, heads, width)
  const int64* slot_mapping;        ///< (tokens); negative: not appended
  const int64* positions;           ///< (tokens)
  const void* cos_sin;              ///< (max_positions, rotary_dim)
  const void *q_weight, *k_weight;  ///< (head_dim)
  const float *k_scale, *v_scale;   ///< (1) or (kv_heads)
  void *k_cache, *v_cache, *q_out;
  int64 k_stride, v_stride, q_stride, q_out_stride;  ///< elements between tokens
  KvCacheStrides k_cache_strides, v_cache_strides;
  int64 rows;  ///< heads of q, k and v of all tokens
  int heads, kv_heads;
  float eps, weight_offset;
};

}  // namespace tunesmith
