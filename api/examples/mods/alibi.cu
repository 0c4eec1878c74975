// ALiBi (Press, Smith and Lewis, 2021, arXiv:2108.12409): subtracts the distance between query and key, times a slope per
// head, from the score. The option alibi does the same faster.
//
// aux: slopes:f32[heads]; offset:i32=seq_kv-seq_q

__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) {
  const int distance = q + aux.offset - k;  // the last query has the position of the last key
  return score - aux.slopes[h] * fabsf(static_cast<float>(distance));
}
