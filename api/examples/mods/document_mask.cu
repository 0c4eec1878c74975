// Documents packed into one sequence: a query sees only the keys of its own document. The arrays hold the document of each
// query and of each key; for self-attention, pass the same array twice. Combine it with causal=... for packed training data.
//
// aux: query_document:i32[batch*seq_q]; key_document:i32[batch*seq_kv]; queries:i32=seq_q; keys:i32=seq_kv

__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) {
  return aux.query_document[b * aux.queries + q] == aux.key_document[b * aux.keys + k];
}
