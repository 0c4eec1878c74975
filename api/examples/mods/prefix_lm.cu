// Prefix language model: every query sees the first keys, as many as its sequence's prefix is long, and those up to its own
// place. Without causal=..., which would hide the prefix too.
//
// aux: prefix:i32[batch]; offset:i32=seq_kv-seq_q

__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) {
  return k < aux.prefix[b] || k <= q + aux.offset;  // the last query stands at the last key
}
