// Scales of e4m3 keys and values: an element stands for its value times the scale.
#pragma once

#include "attention/key_values.cuh"

namespace tunesmith {

template <const AttentionShape& shape>
__device__ __forceinline__ const AttentionScales& scales_of(const AttentionParams& params) {
  return reinterpret_cast<const typename AttentionFeatures<shape>::Argument&>(params).scales;
}

/// A factor of all rows, or of each one, as stage_rows takes it.
struct OneFactor {
  float factor;
  __device__ __forceinline__ float operator()(int) const { return factor; }
};
template <typename Rows>
struct RowFactors {
  Rows rows;
  int end;
  __device__ __forceinline__ float operator()(int row) const { return *rows.row(row, end); }
};

/// One scale for all keys of a sequence and key head, and one for the values. K's is part of the softmax scale, V's
/// multiplies the outputs.
template <const AttentionShape& shape>
struct HeadScales {
  const float k, v;

  __device__ __forceinline__ HeadScales(const AttentionParams& params, const Sequence&, int batch, int kv_head)
      : k(element(scales_of<shape>(params).k, scales_of<shape>(params).k_strides, batch, kv_head)),
        v(element(scales_of<shape>(params).v, scales_of<shape>(params).v_strides, batch, kv_head)) {}

  /// Returns K's scale for a head of the queries.
  static __device__ __forceinline__ float k_of(const AttentionParams& params, int batch, int head) {
    const int kv_head = head / (params.heads / params.kv_heads);
    return element(scales_of<shape>(params).k, scales_of<shape>(params).k_strides, batch, kv_head);
  }

  /// The factors of rows that are multiplied one by one. `in_scores`: a score's factor contains k.
  template <bool in_scores>
  __device__ __forceinline__ auto k_factor() const {
    if constexpr (in_scores)
      return NoFactor();
    else
      return OneFactor{k};
  }
  static __device__ __forceinline__ NoFactor v_factor() { return {}; }

 private:
  static __device__ __forceinline__ float element(const float* base, const AttentionStrides& strides, int batch,
                                                  int kv_head) {
    return base[batch * strides.batch + kv_head * strides.head];
  }
};

/// A scale for each row of K and of V, in arrays that lie like them. K's multiply the columns of S, V's those of the
/// weights.
template <const AttentionShape& shape>
class RowScales {
 public:
  __device__ __forceinline__ RowScales(const AttentionParams& params, const Sequence& sequence, int batch, int kv_head)
      : params_(params), sequence_(sequence), batch_(batch), kv_head_(kv_head) {}

  __device__ __forceinline__ auto k() const {
    return rows(scales_of<shape>(params_).k, scales_of<shape>(params_).k_strides);
  }
  __device__ __forceinline__ auto v() const {
    return rows(scales_of<shape>(params_).v, scales_of<shape>(params_).v_strides);
  }

  /// The factors of rows that are multiplied one by one.
  template <bool>
  __device__ __forceinline__ auto k_factor() const {
    return RowFactors<decltype(k())>{k(), sequence_.seq_kv};
  }
  __device__ __forceinline__ auto v_factor() const { return RowFactors<decltype(v())>{v(), sequence_.seq_kv}; }

  /// Starts to copy the scales of `count` keys from `first` on to the end of their tile. Those of missing rows become zeros.
  template <int threads, int count>
  __device__ __forceinline__ void copy_k(int first, unsigned char* tile, int thread) const {
    copy<threads, count>(k(), first, tile + count * shape.head_dim, thread);
  }
  template <int threads, int count>
  __device__ __forceinline__ void copy_v(int first, unsigned char* tile, int thread) const {
    copy<threads, count>(v(), first, tile + count * shape.head_dim_v, thread);
  }

 private:
  __device__ __forceinline__ auto rows(const float* base, const AttentionStrides& strides) const {
    const float* const head = base + kv_head_ * strides.head;
    if constexpr (shape.page_size > 0) {
      const AttentionPages& pages = pages_of<shape>(params_);
      return PagedRows<float, shape.page_size>{head, pages.block_table + batch_ * pages.table_stride, strides.batch,
                                               strides.seq};
    } else {
      constexpr bool packed = shape.varlen && !shape.kv_lengths;
      return StridedRows<float>{head + (packed ? sequence_.kv_start * strides.seq : batch_ * strides.batch), strides.seq};
    }
  }
  template <int threads, int count, typename Rows>
  __device__ __forceinline__ void copy(const Rows& source, int first, unsigned char* to, int thread) const {
#pragma unroll
    for (int i = 0; i < count; i += threads) {
      const int row = i + thread;
      if (count % threads != 0 && row >= count) break;
      auto* const scale = reinterpret_cast<float*>(to) + row;
      if (first + row < sequence_.seq_kv)
        async_copy<4>(scale, source.row(first + row, sequence_.seq_kv));
      else
        *scale = 0.0f;
    }
  }

  const AttentionParams& params_;
  const Sequence& sequence_;
  const int batch_, kv_head_;
};

}  // namespace tunesmith
