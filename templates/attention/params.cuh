// Parameters of the attention kernels. The host includes this file, too, and fills them.
#pragma once

#include "device/integers.cuh"

namespace tunesmith {

/// Elements between neighbouring batch entries, positions and heads. Packed sequences (varlen) have no batch stride; for
/// keys and values in pages, `batch` is the distance between pages.
struct AttentionStrides {
  int64 batch, seq, head;
};

/// Number of user arrays and numbers that score_mod and mask_mod can read.
constexpr int attention_aux_slots = 8;

/// Dropout of weights. A pair of a query and a key is dropped if its 16 random bits, as the upper half of a word, are less
/// than `threshold`.
struct AttentionDropout {
  const uint64* rng_state;  ///< seed and offset in device memory; nullptr: those below
  uint64 seed, offset;
  uint32 threshold;
  float factor;  ///< 1 / (1 - probability), of weights that are kept; the probability is threshold / 2^32
};
/// The generator's key is seed + offset * dropout_stream.
constexpr uint64 dropout_stream = 0x9e3779b97f4a7c15;

/// Lengths of keys in device memory, and pages of keys and values.
struct AttentionPages {
  const int* block_table;  ///< (batch, max_pages): the pages of each sequence; entries after its length are not read
  const int* kv_lengths;   ///< (batch)
  int64 table_stride;      ///< entries between neighbouring sequences
};

/// Scales of e4m3 keys and values, in device memory: an element stands for its value times the scale. Strides of dimensions
/// that share a scale are 0.
struct AttentionScales {
  const float *k, *v;
  AttentionStrides k_strides, v_strides;
};

/// The kernel's only argument.
struct AttentionParams {
  const void *q, *k, *v;      ///< (batch, seq, heads, head_dim) in the order of the strides
  void* o;                    ///< like q, with head_dim_v
  float* lse;                 ///< (batch, heads, seq_q); packed: (heads, total_q); nullptr: not written
  const float* alibi_slopes;  ///< (heads)
  const float* sinks;         ///< (heads)
  const int* cu_seqlens_q;    ///< (batch + 1): start of each sequence
  const int* cu_seqlens_kv;   ///< (batch + 1)
  uint32* block_mask;         ///< see attention/block_mask.cuh; nullptr: it is in the workspace
  unsigned char* workspace;
  uint64 aux[attention_aux_slots];  ///< addresses of arrays, bits of numbers
  AttentionStrides q_strides, k_strides, v_strides, o_strides;
  int64 total_q;                              ///< positions of all packed sequences
  int64 mask_batch_stride, mask_head_stride;  ///< words of block_mask; 0: shared by all
  int batch, heads, kv_heads;
  int seq_q, seq_kv;  ///< packed, or lengths in device memory: of the longest sequence
  int q_tiles;        ///< of the longest sequence
  int window_left, window_right;
  int splits;                 ///< split-KV: splits of the keys
  int heads_per_section;      ///< neighbouring heads whose K and V fit into L2 together
  int mask_rows, mask_words;  ///< block mask: tiles of 64 queries; words per row for each of the two bits
  float scale;                ///< factor of a dot product
  float scale_log2;           ///< scale * log2(e)
  float softcap, inverse_softcap;
  float cap_terms[3];        ///< coefficients of a polynomial in the square of a dot product (SoftCapSteps::near_capped)
  float cap_near;            ///< largest |dot product| that it is valid for
  float cap_small_terms[2];  ///< coefficients of a shorter one for 16-bit weights (SoftCapSteps::small_exponent)
  float cap_small;
  float cap_lse_terms[3];  ///< coefficients of one for an lse, too (SoftCapSteps::lse_exponent)
  float cap_lse;
};

/// The same with dropout.
struct AttentionDropoutParams {
  AttentionParams attention;
  AttentionDropout dropout;
};

/// The same with lengths of keys in device memory.
struct AttentionPagedParams {
  AttentionParams attention;
  AttentionPages pages;
};

/// The same with scales.
struct AttentionScaledParams {
  AttentionParams attention;
  AttentionPages pages;  ///< with lengths of keys in device memory
  AttentionScales scales;
};

}  // namespace tunesmith
