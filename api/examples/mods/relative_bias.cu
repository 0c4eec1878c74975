// Relative position bias (Shaw, Uszkoreit and Vaswani, 2018, arXiv:1803.02155; T5): adds entry k - q + seq_q - 1 of a
// table with one row per head to the score.
//
// aux: bias:f32[heads*(seq_q+seq_kv-1)]; width:i32=seq_q+seq_kv-1; last_query:i32=seq_q-1

__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) {
  return score + aux.bias[h * aux.width + k - q + aux.last_query];
}
