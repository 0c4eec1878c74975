// Relative position bias (Shaw, Uszkoreit and Vaswani, 2018, arXiv:1803.02155; T5): a table of one row a head, entry
// k - q + seq_q - 1, is added to scores.
//
// aux: bias:f32[heads*(seq_q+seq_kv-1)]; width:i32=seq_q+seq_kv-1; last_query:i32=seq_q-1

__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) {
  return score + aux.bias[h * aux.width + k - q + aux.last_query];
}
