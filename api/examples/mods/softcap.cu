// Softcap (Gemma 2): limits scores to the range from -cap to cap. The option softcap does the same faster.
//
// aux: cap:f32=50

__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) {
  return aux.cap * fast_tanhf(score * (1.0f / aux.cap));  // one division for all scores
}
