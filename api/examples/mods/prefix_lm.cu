// Prefix language model: a query sees the keys of its sequence's prefix and the keys up to its own position. Do not combine
// it with causal=..., which would mask the prefix as well.
//
// aux: prefix:i32[batch]; offset:i32=seq_kv-seq_q

__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) {
  return k < aux.prefix[b] || k <= q + aux.offset;  // the last query has the position of the last key
}
