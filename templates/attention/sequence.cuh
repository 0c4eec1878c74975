// The sequences of a batch: where they start, how long they are, and where their heads and rows are.
#pragma once

#include "attention/rows.cuh"
#include "attention/shape.cuh"

namespace tunesmith {

/// The queries and keys of one sequence.
struct Sequence {
  int64 q_start, kv_start;  ///< start in the packed arrays; 0 otherwise
  int seq_q, seq_kv;
};

/// All sequences have the same lengths.
struct FixedLengths {
  static __device__ __forceinline__ Sequence of(const AttentionParams& params, int) {
    return {0, 0, params.seq_q, params.seq_kv};
  }
};

/// Packed sequences: cu_seqlens hold their starts.
struct PackedLengths {
  static __device__ __forceinline__ Sequence of(const AttentionParams& params, int batch) {
    const int q_start = params.cu_seqlens_q[batch], kv_start = params.cu_seqlens_kv[batch];
    return {q_start, kv_start, params.cu_seqlens_q[batch + 1] - q_start, params.cu_seqlens_kv[batch + 1] - kv_start};
  }
};

/// Returns the pages of the kernel's argument, whose first member is `params`.
template <const AttentionShape& shape>
__device__ __forceinline__ const AttentionPages& pages_of(const AttentionParams& params) {
  return reinterpret_cast<const typename AttentionFeatures<shape>::Argument&>(params).pages;
}

/// Lengths of keys are in device memory, at most seq_kv. Queries may be packed.
template <const AttentionShape& shape>
struct DeviceLengths {
  static __device__ __forceinline__ Sequence of(const AttentionParams& params, int batch) {
    const int given = pages_of<shape>(params).kv_lengths[batch], positive = given < 0 ? 0 : given,
              seq_kv = positive < params.seq_kv ? positive : params.seq_kv;
    if constexpr (shape.varlen) {
      const int q_start = params.cu_seqlens_q[batch];
      return {q_start, 0, params.cu_seqlens_q[batch + 1] - q_start, seq_kv};
    }
    return {0, 0, params.seq_q, seq_kv};
  }
};

template <const AttentionShape& shape>
__device__ __forceinline__ Sequence sequence_of(const AttentionParams& params, int batch) {
  return AttentionFeatures<shape>::Lengths::of(params, batch);
}

/// Returns the address of position 0 of a sequence and head of queries, or of an array like theirs.
template <const AttentionShape& shape, typename Element>
__device__ __forceinline__ Element* head_of(Element* base, const AttentionStrides& strides, int64 start, int batch,
                                            int head) {
  return base + (shape.varlen ? start * strides.seq : batch * strides.batch) + head * strides.head;
}

/// Returns their rows.
template <const AttentionShape& shape, typename Element>
__device__ __forceinline__ StridedRows<Element> rows_of(const Element* base, const AttentionStrides& strides, int64 start,
                                                        int batch, int head) {
  return {head_of<shape>(base, strides, start, batch, head), strides.seq};
}

template <const AttentionShape& shape>
__device__ __forceinline__ float* lse_of(const AttentionParams& params, const Sequence& sequence, int batch, int head) {
  if constexpr (shape.varlen) return params.lse + head * params.total_q + sequence.q_start;
  return params.lse + (static_cast<int64>(batch) * params.heads + head) * params.seq_q;
}

}  // namespace tunesmith
