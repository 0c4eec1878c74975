// Soft cap (Gemma 2): scores stay between -cap and cap. The same as the option softcap, which costs less.
//
// aux: cap:f32=50

__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) {
  return aux.cap * tanhf(score * (1.0f / aux.cap));  // one division for all scores
}
