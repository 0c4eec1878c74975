// ALiBi (Press, Smith and Lewis, 2021, arXiv:2108.12409): the further a key is from its query, the less its score, by a
// slope for each head. The same as the option alibi, which costs less.
//
// aux: slopes:f32[heads]; offset:i32=seq_kv-seq_q

__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) {
  const int distance = q + aux.offset - k;  // the last query stands at the last key
  return score - aux.slopes[h] * fabsf(static_cast<float>(distance));
}
