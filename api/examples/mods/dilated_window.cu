// Causal dilated sliding window (Beltagy, Peters and Cohan, "Longformer", 2020, arXiv:2004.05150): a query sees every
// dilation-th key up to its own position, the last `window` of them.
//
// aux: window:i32=256; dilation:i32=2; offset:i32=seq_kv-seq_q

__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) {
  const int distance = q + aux.offset - k;  // the last query has the position of the last key
  return distance >= 0 && distance < aux.window * aux.dilation && distance % aux.dilation == 0;
}
