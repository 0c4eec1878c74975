// Softcap (Gemma 2): limits scores to the range from -cap to cap. The option softcap does the same faster.
// __tanhf changes a score by at most 2^-11 of it. For float32, or for an exact lse, take fast_tanhf.
//
// aux: cap:f32=50

__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) {
  return aux.cap * __tanhf(score * (1.0f / aux.cap));  // one division for all scores
}
